package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"signalbox/web"
)

// completionCommand prints what a shell reads to complete our command line. The
// shell then asks this program at each key, so that what it offers is always
// what the program takes.
type completionCommand struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Help says where to put it.
func (completionCommand) Help() string {
	return `Put the line for your shell into its start file:

    bash, ~/.bashrc:                   source <(signalbox completion bash)

    zsh, ~/.zshrc, after compinit:     source <(signalbox completion zsh)

    fish, ~/.config/fish/config.fish:  signalbox completion fish | source
`
}

// shellScripts ask __complete with the words up to the cursor, the last of them
// unfinished or empty. Where it has nothing to offer the shell offers files.
var shellScripts = map[string]string{
	"bash": `_signalbox() {
    local IFS=$'\n'
    COMPREPLY=($(signalbox __complete bash "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
    [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace
}
complete -o default -F _signalbox signalbox
`,
	"zsh": `_signalbox() {
    local -a found
    found=("${(@f)$(signalbox __complete zsh "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    if [[ -n ${found[1]} ]]; then
        _describe -V signalbox found
    else
        _files
    fi
}
compdef _signalbox signalbox
`,
	"fish": `function __signalbox_complete
    set -l words (commandline -opc)
    set -l found (signalbox __complete fish $words[2..-1] (commandline -ct) 2>/dev/null)
    if test (count $found) -gt 0
        printf '%s\n' $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c signalbox -f -a '(__signalbox_complete)'
`,
}

// Run prints it.
func (s completionCommand) Run(c console) error {
	_, err := io.WriteString(c.out, shellScripts[s.Shell])
	return err
}

// completeCommand answers a shell. It is hidden, because shells alone call it.
type completeCommand struct {
	Words []string `arg:"" optional:""`
}

// Run prints what the last word may become, a line for each.
func (w completeCommand) Run(c console) error {
	if len(w.Words) == 0 {
		return nil
	}
	parser, err := newParser(&commands{}, c)
	if err != nil {
		return err
	}
	shell, words := w.Words[0], w.Words[1:]
	whole := words
	if shell == "bash" {
		words = rejoined(words)
	}
	if len(words) == 0 {
		words = []string{""}
	}
	var b strings.Builder
	for _, o := range complete(parser.Model.Node, words) {
		switch text := o.text; shell {
		case "bash":
			// bash has taken a=b apart, and replaces the part behind the sign.
			if _, value, split := strings.Cut(text, "="); split && len(whole) > 1 && len(whole) != len(words) {
				text = value
			}
			b.WriteString(text + "\n")
		case "zsh":
			fmt.Fprintf(&b, "%s:%s\n", strings.ReplaceAll(text, ":", `\:`), o.about)
		default:
			fmt.Fprintf(&b, "%s\t%s\n", text, o.about)
		}
	}
	_, err = io.WriteString(c.out, b.String())
	return err
}

// rejoined puts together again what bash takes apart at equals signs.
func rejoined(words []string) []string {
	var out []string
	for i, w := range words {
		if n := len(out); n > 0 && (w == "=" || i > 0 && words[i-1] == "=" && strings.HasSuffix(out[n-1], "=")) {
			out[n-1] += w
			continue
		}
		out = append(out, w)
	}
	return out
}

// offer is a word that a shell may complete to, and what it means.
type offer struct{ text, about string }

// complete is what the last of some words may become, below the root of a
// command line.
func complete(node *kong.Node, words []string) []offer {
	last := words[len(words)-1]
	positional := 0
	var pending *kong.Value // of a flag that has no value yet
	for _, w := range words[:len(words)-1] {
		switch {
		case pending != nil:
			pending = nil
		case strings.HasPrefix(w, "-") && len(w) > 1:
			if f := flagNamed(node, w); f != nil && !f.IsBool() && !strings.Contains(w, "=") {
				pending = f.Value
			}
		default:
			if child := childNamed(node, w); child != nil {
				node = child
			} else {
				positional++
			}
		}
	}
	switch name, value, assigned := strings.Cut(last, "="); {
	case pending != nil:
		return matching(values(pending), last)
	case strings.HasPrefix(last, "-") && assigned:
		f := flagNamed(node, name)
		if f == nil {
			return nil
		}
		var found []offer
		for _, o := range matching(values(f.Value), value) {
			found = append(found, offer{name + "=" + o.text, o.about})
		}
		return found
	case strings.HasPrefix(last, "-"):
		return matching(flags(node), last)
	case len(node.Children) > 0:
		return matching(children(node), last)
	case len(node.Positional) > 0:
		return matching(values(node.Positional[min(positional, len(node.Positional)-1)]), last)
	}
	return nil
}

func childNamed(node *kong.Node, name string) *kong.Node {
	for _, child := range node.Children {
		if !child.Hidden && (child.Name == name || slices.Contains(child.Aliases, name)) {
			return child
		}
	}
	return nil
}

// flagNamed finds the flag of a word such as --wait, -w or --priority=low.
func flagNamed(node *kong.Node, word string) *kong.Flag {
	word, _, _ = strings.Cut(word, "=")
	for _, level := range node.AllFlags(true) {
		for _, f := range level {
			if word == "--"+f.Name || f.Short != 0 && word == "-"+string(f.Short) {
				return f
			}
		}
	}
	return nil
}

func flags(node *kong.Node) (all []offer) {
	for _, level := range node.AllFlags(true) {
		for _, f := range level {
			all = append(all, offer{"--" + f.Name, f.Help})
		}
	}
	return all
}

func children(node *kong.Node) (all []offer) {
	for _, child := range node.Children {
		if !child.Hidden {
			all = append(all, offer{child.Name, child.Help})
		}
	}
	return all
}

// values are what a flag or an argument may be: those of its enumeration, or of
// its tag "completion".
func values(v *kong.Value) (all []offer) {
	switch list := v.Tag.Get("completion"); {
	case list == "@settings":
		return settingOffers()
	case list != "":
		for _, text := range strings.Split(list, ",") {
			all = append(all, offer{text: text})
		}
	case v.Enum != "":
		for _, text := range v.EnumSlice() {
			all = append(all, offer{text: text})
		}
	}
	return all
}

// settingOffers are the settings of a queue with the values that they may have.
func settingOffers() (all []offer) {
	for _, s := range web.Settings() {
		switch s.Kind {
		case "switch":
			all = append(all, offer{s.Name + "=on", s.Help}, offer{s.Name + "=off", s.Help})
		case "choice":
			for _, c := range s.Choices {
				all = append(all, offer{s.Name + "=" + c, s.Help})
			}
		default:
			all = append(all, offer{s.Name + "=", s.Help})
		}
	}
	return all
}

// matching are the offers that begin with what stands there.
func matching(all []offer, begun string) (found []offer) {
	for _, o := range all {
		if strings.HasPrefix(o.text, begun) {
			o.about = strings.Join(strings.Fields(o.about), " ")
			found = append(found, o)
		}
	}
	return found
}
