package interop_test

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// likeSide is one of the two brokers, together with what a program has learnt
// from it.
type likeSide struct {
	name  string // "Kafka" or "ours"
	addr  string
	conn  net.Conn
	corr  int32
	topic map[string][16]byte // ids by name
	names map[[16]byte]string

	prefix    string // of the ids of a program
	members   map[string]*likeMember
	producers map[string]likeProducer
	made      map[string]string // ids of members that the broker made, by the name of a program
}

// likeMember is what a member of a streams group knows.
type likeMember struct {
	epoch   int32
	active  []kmsg.TaskIDs
	standby []kmsg.TaskIDs
}

func (s *likeSide) begin(prefix string) {
	s.prefix = prefix
	s.members = make(map[string]*likeMember)
	s.producers = make(map[string]likeProducer)
	s.made = make(map[string]string)
}

// group is the id of a group that a program names. Empty stays empty.
func (s *likeSide) group(name string) string {
	if name == "" {
		return ""
	}
	return s.prefix + name
}

func (s *likeSide) member(group, name string) *likeMember {
	key := group + "/" + name
	if s.members[key] == nil {
		s.members[key] = &likeMember{}
	}
	return s.members[key]
}

// madeID is the id that the broker made for a member, or one that nobody has.
func (s *likeSide) madeID(name string) string {
	if id := s.made[name]; id != "" {
		return id
	}
	return "unmade-" + name
}

const likeTimeout = 20 * time.Second

func (s *likeSide) hangUp() {
	if s.conn != nil {
		_ = s.conn.Close()
		s.conn = nil
	}
}

// ask sends a request with exactly this version.
func (s *likeSide) ask(req kmsg.Request, version int16) (kmsg.Response, error) {
	if s.conn == nil {
		conn, err := net.DialTimeout("tcp", s.addr, likeTimeout)
		if err != nil {
			return nil, err
		}
		s.conn = conn
	}
	resp, err := s.exchange(req, version)
	if err != nil {
		s.hangUp()
	}
	return resp, err
}

func (s *likeSide) exchange(req kmsg.Request, version int16) (kmsg.Response, error) {
	s.corr++
	req.SetVersion(version)
	formatter := kmsg.NewRequestFormatter(kmsg.FormatterClientID("like"))
	if err := s.conn.SetDeadline(time.Now().Add(likeTimeout)); err != nil {
		return nil, err
	}
	if _, err := s.conn.Write(formatter.AppendRequest(nil, req, s.corr)); err != nil {
		return nil, err
	}
	var size [4]byte
	if _, err := io.ReadFull(s.conn, size[:]); err != nil {
		return nil, err
	}
	frame := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(s.conn, frame); err != nil {
		return nil, err
	}
	r := kbin.Reader{Src: frame}
	if corr := r.Int32(); corr != s.corr {
		return nil, fmt.Errorf("the answer to request %d is one to %d", s.corr, corr)
	}
	resp := req.ResponseKind()
	if resp.IsFlexible() && resp.Key() != kmsg.ApiVersions.Int16() {
		kmsg.SkipTags(&r)
	}
	return resp, resp.ReadFrom(r.Src)
}

// likeField is one field of an answer, as text.
type likeField struct{ path, value string }

// fields are the fields of an answer as they are compared: without throttling,
// texts for people only by whether they are there, and what each broker chooses
// for itself under the name that a program has for it.
func (s *likeSide) fields(resp kmsg.Response) []likeField {
	if fields := s.partitions(resp); fields != nil {
		return fields
	}
	return s.flatten(nil, "", reflect.ValueOf(resp).Elem())
}

// likeUnordered are the lists whose order means nothing: Kafka takes them out of
// hash maps.
var likeUnordered = map[string]bool{
	"DeleteGroupsResponse.Groups": true,
	"OffsetFetchResponse.Topics":  true, "OffsetFetchResponseTopic.Partitions": true,
	"OffsetFetchResponseGroup.Topics": true, "OffsetFetchResponseGroupTopic.Partitions": true,
	"StreamsGroupDescribeResponseGroup.Members": true, "DescribeConfigsResponseResource.Configs": true,
	"ListGroupsResponse.Groups": true,
}

func (s *likeSide) flatten(fields []likeField, path string, v reflect.Value) []likeField {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return append(fields, likeField{path, "null"})
		}
		return s.flatten(fields, path, v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			name := v.Type().Field(i).Name
			switch name {
			case "Version", "UnknownTags", "ThrottleMillis", "ProducerID", "ProducerEpoch", "Host", "Port", "NodeID", "Documentation":
				continue
			case "ErrorMessage", "StatusDetail":
				fields = append(fields, likeField{path + "." + name, likePresence(v.Field(i))})
				continue
			}
			sub := path + "." + name
			if likeUnordered[v.Type().Name()+"."+name] {
				fields = s.flattenSorted(fields, sub, v.Field(i))
				continue
			}
			fields = s.flatten(fields, sub, v.Field(i))
		}
		return fields
	case reflect.Slice:
		if v.IsNil() {
			return append(fields, likeField{path, "null"})
		}
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return append(fields, likeField{path, fmt.Sprintf("%q", s.known(string(v.Bytes())))})
		}
		fields = append(fields, likeField{path + ".len", strconv.Itoa(v.Len())})
		for i := range v.Len() {
			fields = s.flatten(fields, path+"["+strconv.Itoa(i)+"]", v.Index(i))
		}
		return fields
	case reflect.Array:
		id, ok := v.Interface().([16]byte)
		if !ok {
			return append(fields, likeField{path, fmt.Sprint(v.Interface())})
		}
		if name, ok := s.names[id]; ok {
			return append(fields, likeField{path, "id of " + name})
		}
		return append(fields, likeField{path, hex.EncodeToString(id[:])})
	case reflect.String:
		return append(fields, likeField{path, strconv.Quote(s.known(v.String()))})
	default:
		return append(fields, likeField{path, fmt.Sprint(v.Interface())})
	}
}

func (s *likeSide) flattenSorted(fields []likeField, path string, v reflect.Value) []likeField {
	if v.IsNil() {
		return append(fields, likeField{path, "null"})
	}
	elements := make([][]likeField, v.Len())
	for i := range elements {
		elements[i] = s.flatten(nil, "", v.Index(i))
	}
	slices.SortFunc(elements, func(a, b []likeField) int {
		return slices.CompareFunc(a, b, func(a, b likeField) int { return cmp.Compare(a.path+a.value, b.path+b.value) })
	})
	fields = append(fields, likeField{path + ".len", strconv.Itoa(v.Len())})
	for i, element := range elements {
		for _, f := range element {
			fields = append(fields, likeField{path + "[" + strconv.Itoa(i) + "]" + f.path, f.value})
		}
	}
	return fields
}

// known replaces ids that the broker made by their names.
func (s *likeSide) known(text string) string {
	for name, id := range s.made {
		text = strings.ReplaceAll(text, id, "<"+name+">")
	}
	return text
}

func likePresence(v reflect.Value) string {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return "null"
		}
		v = v.Elem()
	}
	if v.String() == "" {
		return "empty"
	}
	return "a text"
}

// likeDifferences compares two answers field by field. Fields of the same path
// are compared in their order.
func likeDifferences(theirs, ours []likeField) (found []string) {
	left := make(map[string][]likeField)
	for _, o := range ours {
		left[o.path] = append(left[o.path], o)
	}
	for _, t := range theirs {
		o := likeField{t.path, "(nothing)"}
		if rest := left[t.path]; len(rest) > 0 {
			o, left[t.path] = rest[0], rest[1:]
		}
		if t != o {
			found = append(found, fmt.Sprintf("%s: Kafka %s, ours %s", t.path, likeNamed(t), likeNamed(o)))
		}
	}
	for _, o := range ours {
		if rest := left[o.path]; len(rest) > 0 && rest[0] == o {
			left[o.path] = rest[1:]
			found = append(found, fmt.Sprintf("%s: Kafka (nothing), ours %s", o.path, likeNamed(o)))
		}
	}
	return found
}

var likeTasks = regexp.MustCompile(`^[^:]*(Active|Standby|Warmup)Tasks`)

// likeTie is whether two answers differ in nothing but who has which task. Where
// tasks and members are equal, Kafka goes through them in the order of a hash
// set, so that the brokers may decide differently.
func likeTie(found []string) bool {
	for _, f := range found {
		if !likeTasks.MatchString(f) {
			return false
		}
	}
	return len(found) > 0
}

// likeNamed adds the name of an error code.
func likeNamed(f likeField) string {
	code, err := strconv.Atoi(f.value)
	if err != nil || !strings.HasSuffix(f.path, "ErrorCode") || code == 0 {
		return f.value
	}
	return f.value + " (" + kerr.TypedErrorForCode(int16(code)).Message + ")"
}

// likeProducer is a transactional producer, as a broker knows it.
type likeProducer struct {
	id    int64
	epoch int16
}

// partitions are the error codes of an answer about offsets by partition. How
// it puts them together does not matter.
func (s *likeSide) partitions(resp kmsg.Response) (fields []likeField) {
	add := func(topic string, id [16]byte, partition int32, code int16) {
		if topic == "" {
			if topic = s.names[id]; topic == "" {
				topic = hex.EncodeToString(id[:])
			}
		}
		fields = append(fields, likeField{fmt.Sprintf("%s-%d.ErrorCode", topic, partition), strconv.Itoa(int(code))})
	}
	switch r := resp.(type) {
	case *kmsg.OffsetCommitResponse:
		fields = append(fields, likeField{"topics", strconv.FormatBool(r.Topics == nil)})
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				add(t.Topic, t.TopicID, p.Partition, p.ErrorCode)
			}
		}
	case *kmsg.TxnOffsetCommitResponse:
		fields = append(fields, likeField{"topics", strconv.FormatBool(r.Topics == nil)})
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				add(t.Topic, t.TopicID, p.Partition, p.ErrorCode)
			}
		}
	case *kmsg.OffsetDeleteResponse:
		fields = append(fields, likeField{"all.ErrorCode", strconv.Itoa(int(r.ErrorCode))})
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				add(t.Topic, [16]byte{}, p.Partition, p.ErrorCode)
			}
		}
	}
	slices.SortStableFunc(fields, func(a, b likeField) int { return cmp.Compare(a.path+" "+a.value, b.path+" "+b.value) })
	return fields
}
