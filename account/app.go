package account

import (
	"regexp"
	"strconv"
)

var appPicture = regexp.MustCompile(`^https?://[^?#]*/in/([0-9]{1,18})(?:\?[^#]*)?$`)

// AppOfPicture is the id of the App whose picture an address is, 0 for that of
// a person. The host names the maker of a commit status by a picture alone,
// and that of an App's account stands at /in/ with the App's id:
// github-actions[bot] has https://avatars.githubusercontent.com/in/15368, and
// 15368 is the id of GitHub Actions. A person's stands at /u/, whatever they
// chose. Where the picture is anything else, nobody is believed to be an App.
func AppOfPicture(address string) int64 {
	m := appPicture.FindStringSubmatch(address)
	if m == nil {
		return 0
	}
	id, _ := strconv.ParseInt(m[1], 10, 64) // 18 digits fit
	return id
}
