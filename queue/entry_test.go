package queue

import (
	"reflect"
	"testing"
	"time"
)

// Whatever field of an entry changes, same says so: a change that it does not
// see is never saved.
func TestSameLooksAtEveryField(t *testing.T) {
	t.Parallel()
	each(reflect.TypeFor[Entry](), nil, func(path []int, name string) {
		a, b := &Entry{Cancel: &Wish{}, Restart: &Wish{}}, &Entry{Cancel: &Wish{}, Restart: &Wish{}}
		if !a.same(b) {
			t.Fatal("two empty entries are not the same")
		}
		give(t, reflect.ValueOf(a).Elem().FieldByIndex(path))
		if a.same(b) || b.same(a) {
			t.Errorf("same does not look at %s", name)
		}
		give(t, reflect.ValueOf(b).Elem().FieldByIndex(path))
		if !a.same(b) {
			t.Errorf("two entries with the same %s are not the same", name)
		}
	})
	if (&Entry{Cancel: &Wish{}}).same(&Entry{}) {
		t.Error("same does not see that somebody wants it to leave")
	}
}

// So does a layer of a stack.
func TestSameLooksAtEveryFieldOfALayer(t *testing.T) {
	t.Parallel()
	each(reflect.TypeFor[Layer](), nil, func(path []int, name string) {
		a, b := &Layer{}, &Layer{}
		give(t, reflect.ValueOf(a).Elem().FieldByIndex(path))
		if a.same(*b) || b.same(*a) {
			t.Errorf("same does not look at %s", name)
		}
		give(t, reflect.ValueOf(b).Elem().FieldByIndex(path))
		if !a.same(*b) {
			t.Errorf("two layers with the same %s are not the same", name)
		}
	})
}

// each calls do for every field, those of fields that are structs or pointers
// to them by themselves.
func each(of reflect.Type, path []int, do func(path []int, name string)) {
	for i := range of.NumField() {
		f := of.Field(i)
		at := append(path[:len(path):len(path)], i)
		inner := f.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		if inner.Kind() == reflect.Struct && inner != reflect.TypeFor[time.Time]() {
			each(inner, at, do)
			continue
		}
		do(at, of.Name()+"."+f.Name)
	}
}

// give gives a field some value that is not its zero.
func give(t *testing.T, f reflect.Value) {
	t.Helper()
	switch f.Kind() {
	case reflect.String:
		f.SetString("x")
	case reflect.Int, reflect.Int64:
		f.SetInt(7)
	case reflect.Bool:
		f.SetBool(true)
	case reflect.Slice:
		list := reflect.MakeSlice(f.Type(), 1, 1)
		if f.Type().Elem().Kind() == reflect.String {
			list.Index(0).SetString("x")
		}
		f.Set(list)
	case reflect.Struct:
		f.Set(reflect.ValueOf(time.Unix(7, 0)))
	default:
		t.Fatalf("a field of kind %s: teach this test to set it", f.Kind())
	}
}
