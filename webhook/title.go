package webhook

import "strings"

// titleKey begins the line of a description that sets the commit's title.
const titleKey = "merge-commit-title:"

// MergeTitle is the text of the first "merge-commit-title: …" line of a pull
// request's description, "" if it has none or an empty one. The key is read in
// any case. Quotes, code blocks and HTML comments, which templates use for
// examples, do not count. The text is one line of at most 256 characters.
func MergeTitle(body string) string {
	for text := range prose(body) {
		if len(text) >= len(titleKey) && strings.EqualFold(text[:len(titleKey)], titleKey) {
			return line(text[len(titleKey):], maxTitle)
		}
	}
	return ""
}
