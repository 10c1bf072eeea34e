package topics

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestHash(t *testing.T) {
	t.Parallel()
	required := []string{"a", "b", "missing"}
	hash := func(change func(map[string]Topic)) int64 {
		have := counts{"a": 1, "b": 2, "unrelated": 3}.topics()
		change(have)
		return Hash(required, NewImage(9, have))
	}
	edit := func(name string, f func(*Topic)) func(map[string]Topic) {
		return func(m map[string]Topic) {
			topic := m[name]
			f(&topic)
			m[name] = topic
		}
	}
	base := hash(func(map[string]Topic) {})
	assert.Equal(t, int64(2385489031854049388), base, "a stored hash must stay valid")

	for name, change := range map[string]func(map[string]Topic){
		"T-02 a missing topic appears":    edit("missing", func(t *Topic) { t.Name = "missing" }),
		"T-23 a topic is deleted":         func(m map[string]Topic) { delete(m, "b") },
		"IT-18 a topic grows":             edit("a", func(t *Topic) { t.Partitions++ }),
		"a topic was deleted and created": edit("a", func(t *Topic) { t.ID[15]++ }),
	} {
		assert.NotEqual(t, base, hash(change), name)
	}
	for name, change := range map[string]func(map[string]Topic){
		"IT-17 an unrelated topic grows":      edit("unrelated", func(t *Topic) { t.Partitions++ }),
		"IT-17 an unrelated topic is deleted": func(m map[string]Topic) { delete(m, "unrelated") },
		"IT-17 another one is created":        edit("other", func(t *Topic) { t.Partitions = 1 }),
		"IT-22 replicas are added or moved":   edit("a", func(t *Topic) { t.ReplicationFactor++ }),
		"configs":                             edit("a", func(t *Topic) { t.Configs = map[string]string{"k": "v"} }),
	} {
		assert.Equal(t, base, hash(change), name)
	}

	none := hash(func(m map[string]Topic) { clear(m) })
	assert.Zero(t, none, "T-01 no required topic exists")
	assert.Zero(t, Hash(nil, NewImage(1, nil)))
}

func TestImage(t *testing.T) {
	t.Parallel()
	have := counts{"b": 1, "a": 2}.topics()
	for _, i := range []*Image{NewImage(5, have), NewCompleteImage(5, have)} {
		assert.Equal(t, uint64(5), i.Version())
		names := i.Names()
		assert.Equal(t, []string{"a", "b"}, names)
		names[0] = "changed"
		assert.Equal(t, []string{"a", "b"}, i.Names())
		delete(have, "b")
		got, ok := i.Topic("b")
		assert.True(t, ok)
		assert.Equal(t, int32(1), got.Partitions)
		have = counts{"b": 1, "a": 2}.topics()
	}
	assert.False(t, NewImage(5, have).Complete())
	assert.True(t, NewCompleteImage(5, have).Complete())
}
