package record

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kbin"
)

func TestUnknownTagsAreSkipped(t *testing.T) {
	t.Parallel()
	// The six values of golden with one or two more tags in every struct, as a
	// later Kafka would write them.
	const tag = "01" + "ce10" + "03" + "aabbcc" // one tag, 2126, three bytes
	for name, c := range map[string]struct {
		key, value string
		want       Record
	}{
		"group": {
			"00110003617070", "0000" + "00000002" + "0000000000000000" + "02" + "00" + "04" + "00000000" + "09" + "01" + "ff",
			group(GroupMetadata{Epoch: 2, LastAssignmentConfigs: []KeyValue{}, StoredDescriptionTopologyEpoch: -1, FailedDescriptionTopologyEpoch: -1}),
		},
		"member": {
			"0013000361707000036d2d31",
			"0000" + "00" + "00" + "0163" + "0168" + "00000001" + "00000000" + "0170" + "01" + "0168" + "0050" + tag + "02" + "026b" + "0276" + tag + tag,
			nil,
		},
		"target metadata": {
			"00140003617070", "0000" + "0000000b" + "01" + "01" + "00",
			&TargetAssignmentMetadata{Group: "app", AssignmentEpoch: 11},
		},
		"target": {
			"0015000361707000036d2d31", "0000" + "02" + "0230" + "02" + "00000007" + tag + "01" + "01" + tag,
			&TargetAssignment{Group: "app", Member: "m-1", Active: []TaskIDs{{"0", []int32{7}}}},
		},
		"current, epochs of standby tasks too": {
			"0016000361707000036d2d31", "0000" + "00000001" + "00000000" + "00" +
				"01" + "02" + "0230" + "02" + "00000007" + "01" + "00" + "05" + "02" + "00000003" + "01" + "01" + "01" + "01" + tag,
			current(CurrentAssignment{MemberEpoch: 1, Standby: []TaskIDs{{"0", []int32{7}}}}),
		},
		"topology": {
			"00170003617070", "0000" + "00000001" + "02" +
				"0230" + "02" + "0261" + "01" + "02" + "0263" + "00000000" + "0000" + "01" + tag + "01" + "01" + "02" + "01" + "01" + "01" + tag + tag +
				"02" + "00" + "01" + "00" + "904e" + "01" + "01",
			&Topology{Group: "app", Epoch: 1, Subtopologies: []Subtopology{{
				ID: "0", SourceTopics: []string{"a"}, StateChangelogTopics: []TopicInfo{{Name: "c"}}, CopartitionGroups: []CopartitionGroup{{}},
			}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			key, err := hex.DecodeString(c.key)
			require.NoError(t, err)
			if c.want == nil { // "0163" is a string of length 0 and a stray byte
				c.value = strings.NewReplacer("0163", "0263", "0168", "0268", "0170", "0270").Replace(c.value)
				c.want = member(MemberMetadata{
					ClientID: "c", ClientHost: "h", RebalanceTimeoutMillis: 1, ProcessID: "p",
					UserEndpoint: &Endpoint{"h", 80}, ClientTags: []KeyValue{{"k", "v"}},
				})
			}
			value, err := hex.DecodeString(c.value)
			require.NoError(t, err)
			got, err := Decode(key, value)
			require.NoError(t, err)
			assert.Equal(t, c.want, got)
		})
	}
}

func TestTruncatedRecordsNameTheField(t *testing.T) {
	t.Parallel()
	for name, r := range golden {
		key, value := AppendKey(nil, r.RecordKey()), AppendValue(nil, r)
		for i := range key {
			_, err := DecodeKey(key[:i])
			var d *DecodeError
			require.ErrorAs(t, err, &d, "%s: %d bytes of the key", name, i)
			assert.Equal(t, "key", d.Part)
			assert.NotEmpty(t, d.Field)
		}
		for i := range value {
			_, err := Decode(key, value[:i:i])
			var d *DecodeError
			require.ErrorAs(t, err, &d, "%s: %d bytes of the value", name, i)
			assert.Equal(t, "value", d.Part)
			assert.Equal(t, r.RecordKey().Type, d.Type)
			assert.NotEmpty(t, d.Field)
			assert.LessOrEqual(t, d.Offset, i)
		}
	}
}

func TestDecodeErrors(t *testing.T) {
	t.Parallel()
	topology := []byte{0, 23, 0, 3, 'a', 'p', 'p'}
	for name, c := range map[string]struct {
		key, value []byte
		want       string
	}{
		"no key":          {nil, nil, "record: key: field Type at byte 0: needs 2 bytes, 0 are left"},
		"offset commit":   {[]byte{0, 1, 0, 1, 'g'}, nil, "record: key type 1 is not one of streams groups (17 and 19 to 23)"},
		"type 18":         {[]byte{0, 18, 0, 1, 'g'}, nil, "record: key type 18 is not one of streams groups (17 and 19 to 23)"},
		"null group":      {[]byte{0, 17, 255, 255}, nil, "record: key of a group metadata record: field GroupId at byte 4: has the length -1"},
		"longer key":      {[]byte{0, 17, 0, 1, 'g', 0}, nil, "record: key of a group metadata record: field end at byte 5: 1 bytes too many"},
		"no member":       {[]byte{0, 19, 0, 1, 'g'}, nil, "record: key of a member metadata record: field MemberId at byte 5: needs 2 bytes, 0 are left"},
		"empty value":     {topology, []byte{}, "record: value of a topology record: field Version at byte 0: needs 2 bytes, 0 are left"},
		"newer version":   {topology, []byte{0, 1, 0, 0}, "record: value of a topology record: field Version at byte 0: is 1, only 0 is known: something newer wrote this record"},
		"null list":       {topology, []byte{0, 0, 0, 0, 0, 1, 0, 0}, "record: value of a topology record: field Subtopologies at byte 7: is null"},
		"hostile list":    {topology, []byte{0, 0, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff, 0x0f}, "record: value of a topology record: field Subtopologies at byte 11: has 4294967294 elements of at least 8 bytes, 0 bytes are left"},
		"longer value":    {topology, []byte{0, 0, 0, 0, 0, 1, 1, 0, 7}, "record: value of a topology record: field end at byte 8: 1 bytes too many"},
		"tag too long":    {topology, []byte{0, 0, 0, 0, 0, 1, 1, 1, 0, 9}, "record: value of a topology record: field TaggedFields at byte 10: tag 0 has 9 bytes, 0 are left"},
		"bad number":      {topology, []byte{0, 0, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, "record: value of a topology record: field Subtopologies at byte 6: is not a variable-length number of at most 32 bits"},
		"our tag, longer": {topology, []byte{0, 0, 0, 0, 0, 1, 1, 1, 0x90, 0x4e, 2, 1, 0}, "record: value of a topology record: field end at byte 12: 1 bytes too many"},
		"our tag, null":   {topology, []byte{0, 0, 0, 0, 0, 1, 1, 1, 0x90, 0x4e, 1, 0}, "record: value of a topology record: field OlderEpochs at byte 12: is null"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := Decode(c.key, c.value)
			require.EqualError(t, err, c.want)
			assert.Nil(t, r)
		})
	}
}

// A length that promises far more than there is must not be believed.
func TestHostileLengthsDoNotAllocate(t *testing.T) {
	value := []byte{0, 0, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff, 0x0f}
	key := []byte{0, 23, 0, 1, 'g'}
	padded := append(slices.Clone(value), make([]byte, 1<<16)...)

	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 100 {
		_, err := Decode(key, value)
		require.Error(t, err)
		_, err = Decode(key, padded)
		require.Error(t, err)
	}
	runtime.ReadMemStats(&after)
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20))
}

func TestKeyCheck(t *testing.T) {
	t.Parallel()
	longest := strings.Repeat("x", MaxKeyString)
	for _, k := range []Key{
		{Type: TypeGroupMetadata},
		{Type: TypeMemberMetadata, Group: longest, Member: longest},
	} {
		require.NoError(t, k.Check())
		got, err := DecodeKey(AppendKey(nil, k))
		require.NoError(t, err)
		assert.Equal(t, k, got)
	}
	for want, k := range map[string]Key{
		"group id of 32768 bytes":  {Type: TypeTopology, Group: longest + "x"},
		"member id of 98304 bytes": {Type: TypeMemberMetadata, Member: strings.Repeat("x", 3<<15)},
		"group id of 65536 bytes":  {Type: TypeMemberMetadata, Group: string(make([]byte, 1<<16))},
		"key type 18":              {Type: 18, Group: "g"},
	} {
		require.ErrorContains(t, k.Check(), want)
		_, err := DecodeKey(AppendKey(nil, k))
		require.Error(t, err, "%s: must not be read as another key", want)
	}
}

func TestTypeNames(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "current assignment", TypeCurrentAssignment.String())
	assert.Equal(t, "record type 18", Type(18).String())
	assert.Equal(t, "record type -1", Type(-1).String())
}

func FuzzDecode(f *testing.F) {
	for _, e := range readGolden(f) {
		f.Add(e.key, e.value, e.value == nil)
	}
	older := sampleTopology()
	older.OlderEpochs = []OlderEpoch{{2, []OlderSubtopology{{"0", []string{"a"}, []string{"c"}}}}}
	f.Add(AppendKey(nil, older.RecordKey()), AppendValue(nil, older), false)
	f.Add([]byte{0, 23, 0, 0}, kbin.AppendUvarint([]byte{0, 0, 0, 0, 0, 0}, math.MaxUint32), false)

	f.Fuzz(func(t *testing.T, key, value []byte, null bool) {
		if null {
			value = nil
		} else if value == nil {
			value = []byte{}
		}
		r, err := Decode(key, value)
		if err != nil {
			var d *DecodeError
			var u *UnknownTypeError
			if r != nil || !errors.As(err, &d) && !errors.As(err, &u) {
				t.Fatalf("%v, %v", r, err)
			}
			return
		}
		// What was read is written in one way, and read again as the same.
		key2, value2 := AppendKey(nil, r.RecordKey()), AppendValue(nil, r)
		if !bytes.Equal(key, key2) || len(value2) > 2*len(value)+16 {
			t.Fatalf("key %x became %x, value of %d bytes one of %d", key, key2, len(value), len(value2))
		}
		again, err := Decode(key2, value2)
		require.NoError(t, err)
		require.Equal(t, r, again)
	})
}
