package record

import "fmt"

// UnknownTypeError is a key of a type that is not one of streams groups. The
// offsets topic holds other types too: whoever reads it skips these.
type UnknownTypeError struct{ Type Type }

func (e *UnknownTypeError) Error() string {
	return fmt.Sprintf("record: key type %d is not one of streams groups (17 and 19 to 23)", int16(e.Type))
}

// DecodeError is a key or a value that does not follow its schema.
type DecodeError struct {
	// Part is "key" or "value".
	Part string
	// Type is the key type, 0 if the key is too short to tell.
	Type Type
	// Field is the schema's name of the field at fault and Offset where it
	// starts in the key or value.
	Field  string
	Offset int
	Reason string
}

func (e *DecodeError) Error() string {
	of := ""
	if e.Type != 0 {
		of = " of a " + e.Type.String() + " record"
	}
	return fmt.Sprintf("record: %s%s: field %s at byte %d: %s", e.Part, of, e.Field, e.Offset, e.Reason)
}
