package rest

import "bytes"

// whole reads a JSON number literal as an integer by its value: 1.0 and 10e-1
// are 1. It computes on the digits, never through a float, so that nothing is
// rounded. ok is false when the value has a fraction or does not fit in 18
// digits, which is more than any field takes.
func whole(literal []byte) (n int64, ok bool) {
	negative := literal[0] == '-'
	if negative {
		literal = literal[1:]
	}
	mantissa, exponent := literal, int64(0)
	if i := bytes.IndexAny(literal, "eE"); i >= 0 {
		mantissa, exponent = literal[:i], exponentOf(literal[i+1:])
	}
	digits, fraction, _ := bytes.Cut(mantissa, []byte("."))
	if len(fraction) > 0 {
		digits = append(append(make([]byte, 0, len(mantissa)), digits...), fraction...)
		exponent -= int64(len(fraction))
	}
	digits = bytes.TrimLeft(digits, "0")
	if len(digits) == 0 {
		return 0, true // zero, whatever its exponent and its sign
	}
	trimmed := bytes.TrimRight(digits, "0")
	exponent += int64(len(digits) - len(trimmed))
	if exponent < 0 || exponent > 18 || len(trimmed)+int(exponent) > 18 {
		return 0, false
	}
	for _, d := range trimmed {
		n = n*10 + int64(d-'0')
	}
	for range exponent {
		n *= 10
	}
	if negative {
		n = -n
	}
	return n, true
}

// exponentOf reads an exponent, cut off at a size that no body's length can
// bring back into range.
func exponentOf(text []byte) int64 {
	const far = 1 << 40
	negative := text[0] == '-'
	if text[0] == '-' || text[0] == '+' {
		text = text[1:]
	}
	var n int64
	for _, d := range text {
		if n = n*10 + int64(d-'0'); n > far {
			n = far
			break
		}
	}
	if negative {
		return -n
	}
	return n
}
