package interop_test

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// recorder writes down the exchanges of one group.
type recorder struct {
	group string
	began time.Time

	mu     sync.Mutex
	lines  []recordedLine
	n      int
	topics map[string]bool // ids
	silent bool            // after the end
}

type recordedLine struct {
	ms   int64
	text string
}

func newRecorder(group string) *recorder {
	return &recorder{group: group, began: time.Now(), topics: make(map[string]bool)}
}

// write adds a line: an object of the fields, in their order.
func (r *recorder) write(fields ...any) {
	if r.silent {
		return
	}
	ms := time.Since(r.began).Milliseconds()
	r.lines = append(r.lines, recordedLine{ms, line(ms, fields...)})
}

func line(ms int64, fields ...any) string {
	b := fmt.Appendf(nil, `{"ms":%d`, ms)
	for i := 0; i < len(fields); i += 2 {
		b = fmt.Appendf(b, `,"%s":`, fields[i])
		b = appendJSON(b, reflect.ValueOf(fields[i+1]))
	}
	return string(append(b, '}'))
}

// appendJSON writes a message with the names of kmsg, and ids of topics as text.
func appendJSON(b []byte, v reflect.Value) []byte {
	if !v.IsValid() {
		return append(b, "null"...)
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return append(b, "null"...)
		}
		return appendJSON(b, v.Elem())
	case reflect.Array:
		id := v.Interface().([16]byte)
		return append(append(append(b, '"'), hex.EncodeToString(id[:])...), '"')
	case reflect.Slice:
		if v.IsNil() {
			return append(b, "null"...)
		}
		b = append(b, '[')
		for i := range v.Len() {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendJSON(b, v.Index(i))
		}
		return append(b, ']')
	case reflect.Struct:
		b = append(b, '{')
		first := true
		for i := range v.NumField() {
			name := v.Type().Field(i).Name
			if name == "Version" || name == "UnknownTags" {
				continue
			}
			if !first {
				b = append(b, ',')
			}
			first = false
			b = fmt.Appendf(b, `"%s":`, name)
			if name == "ErrorMessage" && !v.Field(i).IsNil() || name == "StatusDetail" {
				b = append(b, `"(text)"`...)
				continue
			}
			b = appendJSON(b, v.Field(i))
		}
		return append(b, '}')
	default:
		text, _ := json.Marshal(v.Interface())
		return append(b, text...)
	}
}

func (r *recorder) step(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.write("step", fmt.Sprintf(format, args...))
}

var streamThread = regexp.MustCompile(`^(.*)-StreamThread-(\d+)-`)

// memberOf is the instance and the thread that a client belongs to.
func memberOf(client string) string {
	if m := streamThread.FindStringSubmatch(client); m != nil {
		return m[1] + "/" + m[2]
	}
	return client
}

const lateResponse = "the response was late"

// request writes a request down if it concerns the group.
func (r *recorder) request(x *exchange) {
	of := ""
	switch req := x.req.(type) {
	case *kmsg.StreamsGroupHeartbeatRequest:
		of = req.Group
	case *kmsg.OffsetFetchRequest:
		if len(req.Groups) == 1 {
			of = req.Groups[0].Group
		}
	case *kmsg.OffsetCommitRequest:
		of = req.Group
	case *kmsg.TxnOffsetCommitRequest:
		of = req.Group
	case *kmsg.FindCoordinatorRequest:
		if req.CoordinatorType == 0 && len(req.CoordinatorKeys) == 1 && strings.HasSuffix(x.client, "-consumer") {
			of = req.CoordinatorKeys[0]
		}
	}
	if of != r.group {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.n++
	x.n = r.n
	r.write("n", x.n, "member", memberOf(x.client), "request", kmsg.NameForKey(x.key), "version", x.version, "body", x.req)
}

// response writes down what the client gets: nil if nothing came. The names of
// topics are written down when a client learns them.
func (r *recorder) response(x *exchange, resp kmsg.Response) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m, ok := resp.(*kmsg.MetadataResponse); ok {
		for _, topic := range m.Topics {
			if id := hex.EncodeToString(topic.TopicID[:]); topic.Topic != nil && strings.HasPrefix(*topic.Topic, r.group+"-") && topic.ErrorCode == 0 && !r.topics[id] {
				r.topics[id] = true
				r.write("topic", *topic.Topic, "id", id)
			}
		}
	}
	if x.n == 0 {
		return
	}
	fields := []any{"n", x.n, "member", memberOf(x.client), "response", kmsg.NameForKey(x.key), "version", x.version, "body", resp}
	switch f := x.fault; {
	case f.cutRequest:
		fields = append(fields, "fault", "the connection broke in the middle of the request")
	case f.cutResponse:
		fields = append(fields, "fault", "the connection broke in the middle of the response")
	case f.lost:
		fields = append(fields, "fault", "the response was lost")
	case f.late > 0:
		fields = append(fields, "fault", lateResponse)
	case f.edit != nil:
		fields = append(fields, "fault", "the response was changed")
	}
	if x.answered != nil && x.answered != resp {
		fields = append(fields, "broker", x.answered)
	}
	r.write(fields...)
}

// targets puts the target assignments where they belong in time.
func (r *recorder) targets(all []storedTarget) {
	for _, target := range all {
		ms := target.at.Sub(r.began).Milliseconds()
		r.lines = append(r.lines, recordedLine{ms, line(ms, "target", target.Epoch, "body", target.Members)})
	}
	slices.SortStableFunc(r.lines, func(a, b recordedLine) int { return cmp.Compare(a.ms, b.ms) })
}

// save writes the recording to a file, with the ids of members and processes
// replaced in the order in which they appear.
func (r *recorder) save(t *testing.T, file string) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.silent = true
	ids := regexp.MustCompile(`"(MemberID|ProcessID)":"([^"]+)"`)
	names := make(map[string]string)
	count := make(map[string]int)
	var pairs []string
	for _, l := range r.lines {
		for _, m := range ids.FindAllStringSubmatch(l.text, -1) {
			if names[m[2]] == "" {
				count[m[1]]++
				names[m[2]] = fmt.Sprintf("%s-%d", strings.ToLower(strings.TrimSuffix(m[1], "ID")), count[m[1]])
				pairs = append(pairs, `"`+m[2]+`"`, `"`+names[m[2]]+`"`)
			}
		}
	}
	replace := strings.NewReplacer(pairs...)
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	require.NoError(t, err)
	for _, l := range r.lines {
		_, err := z.Write([]byte(replace.Replace(l.text) + "\n"))
		require.NoError(t, err)
	}
	require.NoError(t, z.Close())
	require.NoError(t, os.WriteFile(file, b.Bytes(), 0o644))
}
