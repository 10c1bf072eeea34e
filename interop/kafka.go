// Package interop runs this project against what others wrote: a real Apache
// Kafka broker. Its tests need Java 17 and Maven and skip, saying so, where
// those are absent.
package interop

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
)

// TB is the part of testing.TB that is needed here.
type TB interface {
	Helper()
	Cleanup(func())
	Skipf(format string, args ...any)
	Fatalf(format string, args ...any)
	Logf(format string, args ...any)
	TempDir() string
}

// SkipWithoutJava skips the test, with the reason, where a real Kafka cannot
// run. STREAMSGROUP_JAVA=off skips everywhere; STREAMSGROUP_JAVA=required fails
// instead of skipping, which is how the whole check makes sure that nothing is
// left out.
func SkipWithoutJava(t TB) {
	t.Helper()
	want := os.Getenv("STREAMSGROUP_JAVA")
	if want == "off" {
		t.Skipf("STREAMSGROUP_JAVA=off: tests against a real Kafka are switched off")
	}
	for _, program := range []string{"bash", "java", "mvn"} {
		if _, err := exec.LookPath(program); err != nil {
			if want == "required" {
				t.Fatalf("%s is not installed and STREAMSGROUP_JAVA=required", program)
			}
			t.Skipf("%s is not installed: a real Kafka needs Java 17 and Maven", program)
		}
	}
}

// StartKafka starts a real Apache Kafka of the given release ("4.4.0") on
// loopback, with further broker properties, and stops it at the end of the
// test. It returns the address.
func StartKafka(t TB, release string, properties ...string) string {
	t.Helper()
	SkipWithoutJava(t)
	_, self, _, _ := runtime.Caller(0)
	script := filepath.Join(filepath.Dir(self), "kafka.sh")
	dir := t.TempDir()
	port, err := freePorts()
	if err != nil {
		t.Fatalf("no free port for Kafka: %v", err)
	}
	env := append(os.Environ(), "KAFKA_VERSION="+release)
	start := exec.Command("bash", append([]string{script, "start", dir, strconv.Itoa(port)}, properties...)...)
	start.Env = env
	if out, err := start.CombinedOutput(); err != nil {
		t.Fatalf("cannot start Kafka %s: %v\n%s", release, err, out)
	} else {
		t.Logf("%s", strings.TrimSpace(string(out)))
	}
	t.Cleanup(func() {
		stop := exec.Command("bash", script, "stop", dir)
		stop.Env = env
		if out, err := stop.CombinedOutput(); err != nil {
			t.Logf("cannot stop Kafka: %v\n%s", err, out)
		}
	})
	return fmt.Sprintf("127.0.0.1:%d", port)
}

// freePorts finds two free ports in a row: Kafka's controller takes the second.
func freePorts() (int, error) {
	var last error
	for range 50 {
		first, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return 0, err
		}
		port := first.Addr().(*net.TCPAddr).Port
		second, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port+1))
		_ = first.Close()
		if err == nil {
			_ = second.Close()
			return port, nil
		}
		last = err
	}
	return 0, last
}
