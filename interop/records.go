package interop

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// KafkaRecord is a record of the offsets topic as Kafka understands it.
type KafkaRecord struct {
	Type int16 `json:"type"` // of the key
	// Key and Value are by the names of Kafka's schemas. Value is "null" for a
	// tombstone.
	Key   json.RawMessage `json:"key"`
	Value json.RawMessage `json:"value"`
	// Unknown are the tagged fields that Kafka does not know, as "path:tag".
	Unknown []string `json:"unknown"`
	// Same is whether Kafka encodes the record to the bytes that it was read from.
	Same bool `json:"same"`
}

// DecodeWithKafka has the given release of Kafka decode records, pairs of key
// and value (nil for none), with the code with which its group coordinator loads
// them. The test fails at the first record that Kafka cannot decode.
func DecodeWithKafka(t TB, release string, records [][2][]byte) []KafkaRecord {
	t.Helper()
	SkipWithoutJava(t)
	var in, stderr bytes.Buffer
	for _, r := range records {
		value := "-"
		if r[1] != nil {
			value = hex.EncodeToString(r[1])
		}
		in.WriteString(hex.EncodeToString(r[0]) + " " + value + "\n")
	}
	java := Java(t, release, "Records")
	java.Stdin, java.Stderr = &in, &stderr
	out, err := java.Output()
	if err != nil {
		t.Fatalf("Kafka %s cannot decode a record: %v\n%s", release, err, &stderr)
	}
	var decoded []KafkaRecord
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var r KafkaRecord
		if err := d.Decode(&r); errors.Is(err, io.EOF) {
			return decoded
		} else if err != nil {
			t.Fatalf("what java prints cannot be read: %v", err)
		}
		decoded = append(decoded, r)
	}
}

// Java compiles one of the programs in the folder java against a release of
// Kafka and returns the command that runs it.
func Java(t TB, release, class string) *exec.Cmd {
	t.Helper()
	SkipWithoutJava(t)
	if _, err := exec.LookPath("javac"); err != nil {
		if os.Getenv("STREAMSGROUP_JAVA") == "required" {
			t.Fatalf("javac is not installed and STREAMSGROUP_JAVA=required")
		}
		t.Skipf("javac is not installed: a JDK is needed, not only a JRE")
	}
	_, self, _, _ := runtime.Caller(0)
	folder := filepath.Dir(self)
	script := exec.Command("bash", filepath.Join(folder, "kafka.sh"), "classpath")
	script.Env = append(os.Environ(), "KAFKA_VERSION="+release)
	script.Stderr = os.Stderr
	out, err := script.Output()
	if err != nil {
		t.Fatalf("cannot find the jars of Kafka %s: %v", release, err)
	}
	path, classes := strings.TrimSpace(string(out)), t.TempDir()
	compile := exec.Command("javac", "-proc:none", "-cp", path, "-sourcepath", filepath.Join(folder, "java"), "-d", classes, filepath.Join(folder, "java", class+".java"))
	if out, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("javac %s: %v\n%s", class, err, out)
	}
	return exec.Command("java", "-cp", classes+string(os.PathListSeparator)+path, class)
}
