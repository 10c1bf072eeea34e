package sim

import (
	"encoding/binary"
	"reflect"
	"slices"
	"sync"
	"unsafe"

	"github.com/streamsgroup/streamsgroup/membership"
)

// A search needs members that can be copied and told apart, and a member keeps its
// state to itself. So this looks at it by reflection: whatever fields it has are
// copied, and count, unless they are named here.

// ignored are fields that say when and how often something happened. A search
// lets everything happen at any time, so they make no difference. Settings do not
// change.
var ignored = map[string]bool{
	"cfg": true, "now": true, "findAttempts": true, "findAt": true, "heardAt": true, "warnedAt": true, "lastID": true,
	"sentAt": true, "dueAt": true, "attempts": true, "backoffTill": true, "ackAt": true, "rejoinAt": true, "rejoins": true,
	"bounced": true, "pollAt": true, "reportedAt": true, "missing": true, "lastErr": true, "asked": true,
	"at": true, "till": true, "Epoch": true,
}

// numbered are fields with ids that only grow: what counts is whether there is one.
var numbered = map[string]bool{"inFlight": true, "leaveID": true, "awaited": true, "ID": true}

// layout is what there is to do with the fields of a type.
type layout struct{ shared, numbered, counted []int }

var layouts sync.Map // reflect.Type to *layout

func layoutOf(t reflect.Type) *layout {
	if l, ok := layouts.Load(t); ok {
		return l.(*layout)
	}
	l := &layout{}
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Name != "cfg" && shares(f.Type) {
			l.shared = append(l.shared, i)
		}
		switch {
		case ignored[f.Name]:
		case numbered[f.Name]:
			l.numbered = append(l.numbered, i)
		default:
			l.counted = append(l.counted, i)
		}
	}
	layouts.Store(t, l)
	return l
}

// cloneMember is an independent copy.
func cloneMember(m *membership.Member) *membership.Member {
	c := *m
	seen := map[unsafe.Pointer]reflect.Value{}
	deepen(reflect.ValueOf(&c).Elem(), seen)
	return &c
}

var memberPackage = reflect.TypeFor[membership.Member]().PkgPath()

// deepen replaces what a copied value shares with the original.
func deepen(v reflect.Value, seen map[unsafe.Pointer]reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for _, i := range layoutOf(v.Type()).shared {
			f := v.Field(i)
			deepen(reflect.NewAt(f.Type(), unsafe.Pointer(f.UnsafeAddr())).Elem(), seen)
		}
	case reflect.Pointer:
		if v.IsNil() || v.Type().Elem().PkgPath() != memberPackage {
			return
		}
		at := v.UnsafePointer()
		c, ok := seen[at]
		if !ok {
			c = reflect.New(v.Type().Elem())
			c.Elem().Set(v.Elem())
			seen[at] = c
			deepen(c.Elem(), seen)
		}
		v.Set(c)
	case reflect.Map:
		if v.IsNil() {
			return
		}
		c := reflect.MakeMapWithSize(v.Type(), v.Len())
		for it := v.MapRange(); it.Next(); {
			e := reflect.New(v.Type().Elem()).Elem()
			e.Set(it.Value())
			deepen(e, seen)
			c.SetMapIndex(it.Key(), e)
		}
		v.Set(c)
	default:
	}
}

// shares is whether copies of a type share anything that a member may change.
// Slices it replaces as a whole.
func shares(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Map:
		return true
	case reflect.Pointer:
		return t.Elem().PkgPath() == memberPackage
	case reflect.Struct:
		for i := range t.NumField() {
			if shares(t.Field(i).Type) {
				return true
			}
		}
	default:
	}
	return false
}

// appendMember appends an encoding of everything about a member that counts.
func appendMember(dst []byte, m *membership.Member) []byte {
	return appendValue(dst, reflect.ValueOf(m).Elem())
}

func appendValue(dst []byte, v reflect.Value) []byte {
	switch v.Kind() {
	case reflect.Bool:
		if v.Bool() {
			return append(dst, 1)
		}
		return append(dst, 0)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return binary.AppendVarint(dst, v.Int())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return binary.AppendUvarint(dst, v.Uint())
	case reflect.String:
		return append(binary.AppendUvarint(dst, uint64(v.Len())), v.String()...)
	case reflect.Slice, reflect.Array:
		dst = binary.AppendUvarint(dst, uint64(v.Len()))
		for i := range v.Len() {
			dst = appendValue(dst, v.Index(i))
		}
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return append(dst, 0)
		}
		return appendValue(append(dst, 1), v.Elem())
	case reflect.Map:
		return appendMap(dst, v)
	case reflect.Struct:
		l := layoutOf(v.Type())
		for _, i := range l.numbered {
			if v.Field(i).IsZero() {
				dst = append(dst, 0)
			} else {
				dst = append(dst, 1)
			}
		}
		for _, i := range l.counted {
			dst = appendValue(dst, v.Field(i))
		}
	default:
	}
	return dst
}

// appendMap appends the values in the order of their keys, and keys if they are
// not ids.
func appendMap(dst []byte, v reflect.Value) []byte {
	type entry struct {
		key   reflect.Value
		order []byte
	}
	var all []entry
	ids := v.Type().Key().Kind() == reflect.Uint64
	for it := v.MapRange(); it.Next(); {
		e := entry{key: it.Key()}
		if ids {
			e.order = binary.BigEndian.AppendUint64(nil, it.Key().Uint())
		} else {
			e.order = appendValue(nil, it.Key())
		}
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b entry) int { return slices.Compare(a.order, b.order) })
	dst = binary.AppendUvarint(dst, uint64(len(all)))
	for _, e := range all {
		if !ids {
			dst = append(dst, e.order...)
		}
		dst = appendValue(dst, v.MapIndex(e.key))
	}
	return dst
}
