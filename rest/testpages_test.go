package rest

import (
	"errors"
	"fmt"
	"testing"

	"signalbox/flaky"
)

// Where the pages of a list lead: each page is walked to from the one before
// it, and back.
func TestPagesOfTests(t *testing.T) {
	t.Parallel()
	key := []byte("key")
	for _, c := range []struct{ total, size, pages int64 }{{0, 10, 0}, {1, 10, 1}, {10, 10, 1}, {11, 10, 2}, {35, 10, 4}, {100, 100, 1}} {
		l := testList{"list", 1, 2, c.size, flaky.Selection{}}
		var walked []string
		for token := ""; ; {
			offset, err := l.offset(key, token)
			if err != nil {
				t.Fatal(err)
			}
			p, err := l.page(key, offset, c.total)
			if err != nil {
				t.Fatal(err)
			}
			walked = append(walked, fmt.Sprint(p.PageIndex))
			if int64(p.TotalPages) != c.pages || int64(p.TotalRows) != c.total {
				t.Errorf("%+v: %+v", c, p)
			}
			if first := p.PageIndex == 0; first != (p.PrevPageToken == "") {
				t.Errorf("%+v: the page before %d is %q", c, p.PageIndex, p.PrevPageToken)
			} else if !first {
				if back, err := l.offset(key, p.PrevPageToken); err != nil || back != offset-c.size {
					t.Errorf("%+v: back from %d leads to %d, %v", c, offset, back, err)
				}
			}
			if (p.LastPageToken == "") != (c.total == 0) {
				t.Errorf("%+v: the last page is %q", c, p.LastPageToken)
			} else if c.total > 0 {
				if last, err := l.offset(key, p.LastPageToken); err != nil || last != (c.pages-1)*c.size {
					t.Errorf("%+v: the last page begins at %d, %v", c, last, err)
				}
			}
			if token = p.NextPageToken; token == "" {
				break
			}
		}
		if want := max(c.pages, 1); int64(len(walked)) != want {
			t.Errorf("%+v: walked %v", c, walked)
		}
	}
	// The list got shorter while somebody looked at its fifth page.
	l := testList{"list", 1, 2, 10, flaky.Selection{}}
	p, _ := l.page(key, 40, 25)
	if back, err := l.offset(key, p.PrevPageToken); err != nil || back != 20 || p.NextPageToken != "" {
		t.Errorf("beyond the end: %+v leads back to %d", p, back)
	}
	token, _ := signCursor(key, l, 10)
	for name, other := range map[string]testList{"another repository": {"list", 1, 3, 10, flaky.Selection{}}, "another organisation": {"list", 2, 2, 10, flaky.Selection{}}, "another size": {"list", 1, 2, 5, flaky.Selection{}}, "another list": {"other", 1, 2, 10, flaky.Selection{}}, "another filter": {"list", 1, 2, 10, flaky.Selection{Show: flaky.ShowBroken}}} {
		var f *failure
		if _, err := other.offset(key, token); !errors.As(err, &f) || f.status != 400 {
			t.Errorf("a token of %s: %v", name, err)
		}
	}
}
