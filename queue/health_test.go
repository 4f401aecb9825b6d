package queue

import (
	"testing"
	"time"
)

// A quantile is off by 3 % at most, whatever the length of things.
func TestQuantiles(t *testing.T) {
	t.Parallel()
	for _, unit := range []float64{10, 600, 86400} {
		s := Spread{}
		for i := range 1000 {
			s[BucketOf(unit*(1+float64(i)/1000))]++
		}
		for share, want := range map[float64]float64{0.5: 1.5 * unit, 0.95: 1.95 * unit, 0.99: 1.99 * unit} {
			if got := s.Quantile(share).Seconds(); got < want*0.97-1 || got > want*1.03+1 {
				t.Errorf("the %v quantile is %v s, want about %v s", share, got, want)
			}
		}
	}
	if got := (Spread{}).Quantile(0.5); got != 0 {
		t.Errorf("of nothing: %s", got)
	}
	one := Spread{BucketOf(60): 1}
	if p1, p99 := one.Quantile(0.01), one.Quantile(0.99); p1 != p99 || p1 < 58*time.Second || p1 > 62*time.Second {
		t.Errorf("of one minute: %s and %s", p1, p99)
	}
	if BucketOf(-5) != 0 || BucketOf(0) != 0 || BucketOf(1) != 0 {
		t.Error("what took no time is in another bucket than a second")
	}
}
