package flaky

import (
	"fmt"
	"testing"
)

func TestRenames(t *testing.T) {
	t.Parallel()
	in := func(file, class, name string) Test {
		return Test{Org: "o", Repo: "r", Parent: "suite", File: file, Classname: class, Name: name}
	}
	cart := func(name string) Test { return in("cart_test.py", "cart.TestCart", name) }
	many := func(prefix string, n int) (all []Test) {
		for i := range n {
			all = append(all, cart(fmt.Sprintf("%s case number %c%c%c", prefix, 'a'+i%26, 'a'+i/26%26, 'a'+i/676)))
		}
		return all
	}
	for name, c := range map[string]struct {
		vanished, appeared []Test
		want               []Rename
	}{
		"a word was added": {[]Test{cart("test_total_is_rounded"), cart("test_empty")}, []Test{cart("test_total_is_rounded_up")},
			[]Rename{{cart("test_total_is_rounded"), cart("test_total_is_rounded_up")}}},
		"quite another name":    {[]Test{cart("test_total")}, []Test{cart("test_checkout_with_coupon")}, nil},
		"another suite":         {[]Test{cart("test_total_is_rounded")}, []Test{in("menu_test.py", "menu.TestMenu", "test_total_is_rounded_up")}, nil},
		"two that are as alike": {[]Test{cart("test_total_is_rounded")}, []Test{cart("test_total_is_rounded_a"), cart("test_total_is_rounded_b")}, nil},
		"the file moved": {[]Test{cart("test_empty"), cart("test_full")},
			[]Test{in("shop/cart_test.py", "shop.cart.TestCart", "test_empty"), in("shop/cart_test.py", "shop.cart.TestCart", "test_full")},
			[]Rename{{cart("test_empty"), in("shop/cart_test.py", "shop.cart.TestCart", "test_empty")}, {cart("test_full"), in("shop/cart_test.py", "shop.cart.TestCart", "test_full")}}},
		"another parameter":       {[]Test{cart("test_x[red]")}, []Test{cart("test_x[reds]")}, nil},
		"a name with the time":    {[]Test{cart("test at 2026-03-02 10:11:12")}, []Test{cart("test at 2026-03-03 08:00:00")}, nil},
		"names made by the dozen": {many("runs the", 300), many("runs this", 300), nil},
		"nothing":                 {nil, nil, nil},
	} {
		got := Renames(c.vanished, c.appeared)
		if fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s:\n %+v\n want %+v", name, got, c.want)
		}
	}
}
