package report

import (
	"bytes"
	"math"
	"strconv"
	"strings"
	"time"
)

// seconds reads a duration; -1 if it is none, which is noted unless it is
// empty.
func (j *junit) seconds(raw []byte) float64 {
	if len(bytes.TrimSpace(raw)) == 0 {
		return -1
	}
	n, ok := parseSeconds(string(raw))
	if !ok {
		j.notes.add(BadDurations, j.attribute(raw))
		return -1
	}
	return n
}

// units that a duration may end with, in seconds.
var units = []struct {
	suffix string
	factor float64
}{{"ms", 1e-3}, {"seconds", 1}, {"second", 1}, {"secs", 1}, {"sec", 1}, {"s", 1}}

// parseSeconds reads a number of seconds as programs of all countries write it.
// With a point behind it, or another comma, a comma parts thousands; alone it is
// the decimal sign, because tests of 1.234 seconds are more frequent than those
// of 1234.
func parseSeconds(text string) (float64, bool) {
	text = strings.ToLower(strings.TrimSpace(text))
	factor := 1.0
	for _, u := range units {
		if number, ok := strings.CutSuffix(text, u.suffix); ok {
			text, factor = strings.TrimSpace(number), u.factor
			break
		}
	}
	if strings.IndexFunc(text, func(r rune) bool { return !strings.ContainsRune("0123456789.,e+-", r) }) >= 0 {
		return 0, false // hexadecimal, Inf, NaN, underscores
	}
	comma, point := strings.LastIndexByte(text, ','), strings.LastIndexByte(text, '.')
	switch {
	case comma >= 0 && point > comma, strings.Count(text, ",") > 1:
		text = strings.ReplaceAll(text, ",", "")
	case comma >= 0:
		text = strings.ReplaceAll(strings.ReplaceAll(text, ".", ""), ",", ".")
	}
	n, err := strconv.ParseFloat(text, 64)
	if n *= factor; err != nil || n < 0 || math.Signbit(n) && n != 0 || n > 1e9 {
		return 0, false
	}
	return math.Abs(n), true
}

// layouts are the ways in which times are written: first those with a zone.
var layouts = []string{
	"2006-01-02T15:04:05.999999999Z07:00", "2006-01-02T15:04:05.999999999-0700", "2006-01-02T15:04:05.999999999 Z07:00",
	"2006-01-02 15:04:05.999999999Z07:00", "2006-01-02 15:04:05.999999999 -0700 MST", "2006-01-02 15:04:05.999999999 -0700",
	"2006-01-02 15:04:05.999999999 MST", "2006-01-02 15:04:05.999999999-0700", "Mon, 02 Jan 2006 15:04:05 -0700", "Mon, 2 Jan 2006 15:04:05 MST",
	"Mon Jan _2 15:04:05 MST 2006", "Mon Jan _2 15:04:05 -0700 2006",
}

var zoneless = []string{
	"2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999", "2006-01-02T15:04", "2006-01-02 15:04",
	"20060102T150405", "20060102 15:04:05", "Mon Jan _2 15:04:05 2006", "2006/01/02 15:04:05", "02 Jan 2006 15:04:05", "Jan _2, 2006 3:04:05 PM", "2006-01-02",
}

// parseTime reads a time, and says whether it had a zone.
func parseTime(text string) (at time.Time, zone, ok bool) {
	if text = strings.TrimSpace(text); strings.HasPrefix(text, "2") {
		text = strings.Replace(text, ",", ".", 1) // Python's logging: 15:04:05,123
	}
	for _, layout := range layouts {
		if at, err := time.Parse(layout, text); err == nil {
			return at.UTC(), true, true
		}
	}
	for _, layout := range zoneless {
		if at, err := time.Parse(layout, text); err == nil {
			return at, false, true
		}
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && n > 0 {
		switch {
		case n < 1e11:
			return time.Unix(n, 0).UTC(), true, true
		case n < 1e14:
			return time.UnixMilli(n).UTC(), true, true
		}
	}
	return time.Time{}, false, false
}

const (
	// oldest is how long before its upload a test may have run.
	oldest = 30 * 24 * time.Hour
	// skew is how far the clock of a CI machine may be ahead of ours.
	skew = 10 * time.Minute
)

// time reads when something began. A time that is long past or to come stands
// for a clock that is wrong, and a zone that is missing may shift it by a day.
func (j *junit) time(raw []byte) time.Time {
	text := string(raw)
	if strings.TrimSpace(text) == "" {
		return time.Time{}
	}
	if c := &j.cache[3]; c.text != "" && bytes.Equal(c.raw, raw) {
		return j.lastTime
	}
	at := j.options.plausible(text, &j.notes)
	j.cache[3] = cached{raw: append(j.cache[3].raw[:0], raw...), text: text}
	j.lastTime = at
	return at
}

func (o Options) plausible(text string, notes *Notes) time.Time {
	at, zone, ok := parseTime(text)
	if ok && !zone {
		notes.add(NoZone, text)
	}
	latest := o.Uploaded.Add(skew)
	if !zone {
		latest = latest.Add(14 * time.Hour) // written by a clock to the east
	}
	if !ok || at.Before(o.Uploaded.Add(-oldest)) || at.After(latest) {
		notes.add(BadTimes, text)
		return o.Uploaded
	}
	if at.After(o.Uploaded) {
		return o.Uploaded
	}
	return at
}
