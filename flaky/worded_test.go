package flaky

import "testing"

func TestWorded(t *testing.T) {
	t.Parallel()
	const text = "{One|Some} {case has|cases have} no {name|names}{|, $1}."
	for n, want := range map[int]string{0: "Some cases have no names, $1.", 1: "One case has no name.", 2: "Some cases have no names, $1."} {
		if got := Worded(n, text); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}
