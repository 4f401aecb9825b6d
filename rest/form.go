package rest

import (
	"fmt"
	"slices"
	"strings"
)

// maxProblems is how many faults of one body are named.
const maxProblems = 8

// field is a field that a request may have.
type field struct {
	name     string
	required bool
	nullable bool // read is called for null too
	read     func(f *form, v value)
}

// required is a field that must be there and not null.
func required(name string, read func(*form, value)) field {
	return field{name: name, required: true, read: read}
}

// optional is a field that may be left out; null counts as that.
func optional(name string, read func(*form, value)) field {
	return field{name: name, read: read}
}

// form collects what is wrong with the fields of a body.
type form struct{ problems []string }

// decode reads a body into whatever the fields point at. All faults of the
// fields are reported together, each with its path.
func decode(body []byte, fields ...field) error {
	root, err := parse(body)
	if err != nil {
		return err
	}
	var f form
	f.object(root, fields)
	return f.err()
}

// err is nil when nothing was wrong.
func (f *form) err() error {
	if len(f.problems) == 0 {
		return nil
	}
	shown := f.problems[:min(len(f.problems), maxProblems)]
	return invalidRequest(strings.Join(shown, " "))
}

// refuse notes what is wrong with a value: "<path> must be …".
func (f *form) refuse(v value, must string) { f.note(v.path() + " " + must + ".") }

func (f *form) note(sentence string) {
	if len(f.problems) < maxProblems {
		f.problems = append(f.problems, sentence)
	}
}

// array has each item of an array read. of says what the items are; there may be
// so many of them at most. It is true when there was nothing wrong with the array
// itself.
func (f *form) array(v value, of string, most int, read func(item value)) bool {
	if v.raw[0] != '[' {
		f.refuse(v, "must be an array of "+of+", not "+v.kind())
		return false
	}
	for i, item := range v.items() {
		if i == most {
			f.refuse(v, fmt.Sprintf("must not have more than %d items", most))
			return false
		}
		read(item)
	}
	return true
}

// object reads the fields of an object.
func (f *form) object(v value, fields []field) {
	if v.raw[0] != '{' {
		f.refuse(v, "must be an object, not "+v.kind())
		return
	}
	seen := make([]bool, len(fields))
	given := make([]bool, len(fields))
	for name, member := range v.members() {
		i := slices.IndexFunc(fields, func(known field) bool { return known.name == name })
		switch {
		case i < 0: // clients send extra ones
		case seen[i]:
			f.refuse(member, "is given twice")
		default:
			seen[i] = true
			given[i] = !member.null()
			if given[i] || fields[i].nullable {
				fields[i].read(f, member)
			}
		}
	}
	for i, known := range fields {
		if known.required && !given[i] {
			path := known.name
			if p := v.path(); p != "" {
				path = p + "." + known.name
			}
			f.note(path + " is required.")
		}
	}
}
