package flaky

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hmarr/codeowners"
	"pgregory.net/rapid"
)

func TestOwnersOnGitHub(t *testing.T) {
	t.Parallel()
	o, problems := ParseOwners(`# comment
*       @global-owner1 @global-owner2
*.js    @js-owner # inline comment
*.go docs@example.com
/build/logs/ @doctocat
docs/*  docs2@example.com
apps/ @octocat
/docs/ @acme/docs
/scripts/ @doctocat @octocat
**/logs @octocat
/apps/github
with\ space/ @spacer
bad-owner not_an_owner
[a-z]*.txt @class
!no @negation
/deep/**/x @deep
/any/**/ @folders
`, GitHub)
	for path, want := range map[string]string{
		"README": "@global-owner1 @global-owner2", "a/b/x.js": "@js-owner", "main.go": "docs@example.com", "build/logs/1": "@octocat", "x/build/logs": "@octocat",
		"docs/a.md": "@acme/docs", "sub/docs/a.md": "@global-owner1 @global-owner2", "a/apps/b/c": "@octocat", "apps/github": "", "apps/github/deep": "",
		"scripts/x": "@doctocat @octocat", "with space/x": "@spacer", "bad-owner": "@global-owner1 @global-owner2", "deep/x": "@deep", "deep/a/b/x": "@deep", "deep/a/b/x/y": "@deep",
		"any/a/b": "@folders", "any/a": "@global-owner1 @global-owner2",
	} {
		if got := strings.Join(o.Of(path), " "); got != want {
			t.Errorf("%s belongs to %q, want %q", path, got, want)
		}
	}
	var lines []string
	for _, p := range problems {
		lines = append(lines, fmt.Sprint(p.Line))
	}
	if got := strings.Join(lines, " "); got != "13 14 15" {
		t.Errorf("left out: %v", problems)
	}
}

// From GitLab's documentation, by section.
func TestOwnersOnGitLab(t *testing.T) {
	t.Parallel()
	o, problems := ParseOwners(`* @general
\#file_with_pound.rb @pound
/config/ @@maintainer
[Documentation][2] @docs-team
docs/
README.md
internal/NOTES.md @notes # and @comment
!docs/generated/

^[Database] @database-team
model/db/
config/db/database-setup.md @docs-team
model/db/none.[ch] @group/sub/deep mail@example.com
[documentation]
/LICENSE
[ ]
[unfinished
`, GitLab)
	for path, want := range map[string]string{
		"a": "@general", "#file_with_pound.rb": "@pound", "config/x": "@@maintainer", "x/config/y": "@general",
		"docs/a.md": "@general @docs-team", "a/b/docs/c/d": "@general @docs-team", "x/README.md": "@general @docs-team", "y/internal/NOTES.md": "@general @notes @comment",
		"docs/generated/a": "@general", "model/db/a": "@general @database-team", "model/db/none.c": "@general @group/sub/deep mail@example.com", "LICENSE": "@general @docs-team",
		"README.md/x": "@general", "config/db/database-setup.md": "@@maintainer @docs-team",
	} {
		if got := strings.Join(o.Of(path), " "); got != want {
			t.Errorf("%s belongs to %q, want %q", path, got, want)
		}
	}
	if len(problems) != 2 || problems[0].Line != 16 || problems[1].Line != 17 {
		t.Errorf("left out: %v", problems)
	}
}

// hmarr/codeowners is the oracle for GitHub's dialect, one line at a time: it
// refuses a whole file for one bad line, and GitHub only that line.
func TestOwnersMatchAsTheOracleDoes(t *testing.T) {
	t.Parallel()
	part := rapid.StringMatching(`(\*\*|\*|\*\.go|a|b|ab|a\?b|\*b|a\*|\.a|\\ a|a-b|\*\*)`)
	name := rapid.StringMatching(`(a|b|ab|acb|xb|ax|\.a|x\.go| a|a-b)`)
	rapid.Check(t, func(t *rapid.T) {
		line := strings.Join(rapid.SliceOfN(part, 1, 4).Draw(t, "parts"), "/")
		line = rapid.SampledFrom([]string{"", "/"}).Draw(t, "root") + line + rapid.SampledFrom([]string{"", "/"}).Draw(t, "folder")
		if strings.Contains(line, "**/**") || strings.HasSuffix(line, "**/") {
			t.Skip("the oracle makes of these what matches no path at all")
		}
		path := strings.Join(rapid.SliceOfN(name, 1, 5).Draw(t, "path"), "/")
		want, err := codeowners.ParseFile(strings.NewReader(line + " @me"))
		ours, problems := ParseOwners(line+" @me", GitHub)
		if err != nil || len(problems) > 0 {
			if (err != nil) != (len(problems) > 0) {
				t.Fatalf("%q: oracle %v, ours %v", line, err, problems)
			}
			return
		}
		rule, err := want.Match(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(ours.Of(path)) > 0; got != (rule != nil) {
			t.Fatalf("%q matches %q: %t, the oracle says %t", line, path, got, rule != nil)
		}
	})
}

func FuzzOwners(f *testing.F) {
	f.Add("[S][1] @a\n^[T]\n/a/**/b[a-z]* @b\n!x\n\\ @c", "a/b/c")
	f.Add(strings.Repeat("**/", 50)+"a @a", strings.Repeat("a/", 50)+"b")
	f.Fuzz(func(t *testing.T, text, path string) {
		for _, d := range []Dialect{GitHub, GitLab} {
			o, problems := ParseOwners(text, d)
			o.Of(path)
			for _, p := range problems {
				if p.Line < 1 || p.Err == nil {
					t.Errorf("%v", p)
				}
			}
		}
	})
}
