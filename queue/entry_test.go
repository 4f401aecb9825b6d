package queue

import (
	"reflect"
	"testing"
	"time"
)

// Whatever field of an entry, a group or a run changes, same says so: a change that
// it does not see is never saved.
func TestSameLooksAtEveryField(t *testing.T) {
	t.Parallel()
	everyField(t, func() *Entry { return &Entry{Cancel: &Wish{}, Restart: &Wish{}} }, (*Entry).same)
	everyField(t, func() *Group { return &Group{Part: &Part{}} }, (*Group).same)
	everyField(t, func() *Run { return &Run{NotBuilt: &RunNotBuilt{}} }, (*Run).same)
	everyField(t, func() *Layer { return &Layer{} }, func(a, b *Layer) bool { return a.same(*b) })
	everyField(t, func() *Report { return &Report{} }, func(a, b *Report) bool { return a.same(*b) })
	everyField(t, func() *TestResults { return &TestResults{} }, func(a, b *TestResults) bool { return a.same(*b) })
	for what, same := range map[string]bool{
		"somebody wants an entry to leave": (&Entry{Cancel: &Wish{}}).same(&Entry{}),
		"a group is a part of a search":    (&Group{Part: &Part{}}).same(&Group{}),
		"a run was not built":              (&Run{NotBuilt: &RunNotBuilt{}}).same(&Run{}),
		"another is a member":              (&Group{Members: []EntryID{"a"}}).same(&Group{Members: []EntryID{"b"}}),
		"another step is in a chain":       (&Run{Chain: []Step{{PR: 1}}}).same(&Run{Chain: []Step{{PR: 2}}}),
		"CI says something else":           (&Run{Checks: map[string]Report{"ci": {ID: 1}}}).same(&Run{Checks: map[string]Report{"ci": {ID: 2}}}),
		"other tests have failed":          (&Run{Results: []TestResults{{Failed: 1}}}).same(&Run{Results: []TestResults{{Failed: 2}}}),
	} {
		if same {
			t.Errorf("same does not see that %s", what)
		}
	}
}

// everyField gives each field of one of two alike values another value, then the
// other one the same.
func everyField[T any](t *testing.T, blank func() *T, same func(a, b *T) bool) {
	t.Helper()
	each(reflect.TypeFor[T](), nil, func(path []int, name string) {
		a, b := blank(), blank()
		if !same(a, b) {
			t.Fatalf("two blank values of %T are not the same", *a)
		}
		give(t, reflect.ValueOf(a).Elem().FieldByIndex(path))
		if same(a, b) || same(b, a) {
			t.Errorf("same does not look at %s", name)
		}
		give(t, reflect.ValueOf(b).Elem().FieldByIndex(path))
		if !same(a, b) {
			t.Errorf("two with the same %s are not the same", name)
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
	case reflect.Map:
		f.Set(reflect.MakeMap(f.Type()))
		f.SetMapIndex(reflect.Zero(f.Type().Key()), reflect.Zero(f.Type().Elem()))
	case reflect.Struct:
		f.Set(reflect.ValueOf(time.Unix(7, 0)))
	default:
		t.Fatalf("a field of kind %s: teach this test to set it", f.Kind())
	}
}
