package flaky

import "regexp"

// choices are {one|several} in a text.
var choices = regexp.MustCompile(`\{([^{|}]*)\|([^{|}]*)\}`)

// Worded is a text of ours about n things: of each {one|several} in it, the part
// that fits stays.
func Worded(n int, text string) string {
	if n == 1 {
		return choices.ReplaceAllString(text, "$1")
	}
	return choices.ReplaceAllString(text, "$2")
}
