#!/bin/sh
# Applies each patch here to a copy of package queue, one at a time, and requires
# that the test named in its first line fails, which passes without it. A rule
# that can be broken without a test failing is not tested.
#
#	# breaks: the rule; fails: package Test
#
# Arguments are names of patches without .patch; none means all.
set -u
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
mkdir "$copy/queue"
cp "$root/go.mod" "$root/go.sum" "$copy"
cp -R "$root/benchtest" "$copy/benchtest"
cp "$root"/queue/*.go "$copy/queue"
cp -R "$root/queue/sim" "$copy/queue/sim"
cp -R "$root/queue/proof" "$copy/queue/proof"
mkdir "$copy/queue/testdata"
cp "$root"/queue/testdata/*.txt "$copy/queue/testdata"
rm -rf "$copy/queue/sim/testdata"
cd "$copy" || exit 1

# run PACKAGE TEST LIMIT tells how one test goes: pass, fail, or broken when it
# cannot be built.
run() {
	flags=
	case $1 in */sim) flags="-rapid.checks=300 -rapid.nofailfile -rapid.shrinktime=100ms" ;; esac
	pattern=$(echo "$2" | sed 's,[^/][^/]*,^&$,g')
	if go test -count=1 -timeout "$3" -run "$pattern" "$1" $flags >out 2>&1; then
		grep -q 'no tests to run' out && echo missing || echo pass
	elif grep -q 'build failed\|setup failed' out; then
		echo broken
	else
		echo fail
	fi
}

if [ $# -eq 0 ]; then
	set -- $(cd "$here" && ls ./*.patch | sed 's,^\./,,; s,\.patch$,,')
fi
bad=0
tried=' '
for name; do
	patch=$here/$name.patch
	where=$(sed -n '1s/.*; fails: //p' "$patch")
	package=${where% *} test=${where#* }
	case $tried in *" $test "*) before=pass ;; *) before=$(run "$package" "$test" 60m) tried="$tried$test " ;; esac
	if ! git apply -p1 --recount "$patch" 2>out; then
		echo "$name: does not apply any more: $(head -n 1 out)"
		bad=1
		continue
	fi
	# What is broken may also go round for ever.
	after=$(run "$package" "$test" 2m)
	git apply -p1 --recount -R "$patch"
	if [ "$before $after" = "pass fail" ]; then
		echo "$name: seen by $test"
	else
		echo "$name: NOT SEEN: $test says $before without the patch and $after with it"
		bad=1
	fi
done
exit $bad
