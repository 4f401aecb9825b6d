#!/bin/sh
# Prints what each rule of an adaptive queue is worth: the headline cells that the
# goals are about, played with all of them and, one at a time, without each: with
# the patches here, applied to a copy of the tree. Below stand fixed settings on
# the same workloads.
#
#	# without: the rule
#
# Figures are P50/P95/P99 divided by O1 and CI divided by O3, for A4 the runs for
# each change. Arguments are names of patches without .patch; none means all. PLAY
# says how much is played, CELLS in which cells.
set -u
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
(cd "$root" && git ls-files -z | tar --null -T - -cf -) | tar -xf - -C "$copy"
cd "$copy" || exit 1
cells=${CELLS:-A1 lanes 100,A3,A4 cost p=1%,A5,A8 overload 2,A9 single}
play=${PLAY:---changes 400 --seeds 2}

# rows plays policies and prints a row for each that is named exactly so: what it is
# called, and its figures in each cell.
rows() {
	policies=$1
	go build -trimpath -o program ./cmd/signalbox && ./program simulate --cells headline --only "$cells" --policies "$policies" $play --markdown >table || exit 1
	echo "$policies" | tr ',' '\n' | while read -r policy; do
		awk -F ' *[|] *' -v policy="$policy" '
			/^### / { if (cell != "") row = row " | "; cell = $0; sub("### ", "", cell) } # none there: empty
			$2 == policy && cell != "" {
				for (i = 3; i <= 8; i++) sub("±.*", "", $i)
				row = row " | " (cell ~ /^A4/ ? $8 " runs" : $3 "/" $4 "/" $5 ", " $7)
				cell = ""
			}
			END { if (cell != "") row = row " | "; print row }' table
	done
}

# same says of figures that are those with all rules no more than that.
same() {
	awk -F ' [|] ' 'NR == FNR { for (i = 2; i <= NF; i++) with[i] = $i; next }
		{ row = ""; for (i = 2; i <= NF; i++) row = row " | " ($i == with[i] ? "the same" : $i); print row " |" }' all -
}

# heading names the columns.
heading() {
	sed -n 's/^### //p' table | awk '{ row = row " | " $0; line = line "---|" } END { print "|" row " |"; print "|---|" line }'
}

rows adaptive >all || exit 1
heading
echo "| adaptive$(cat all) |"
if [ $# -eq 0 ]; then
	set -- $(cd "$here" && ls ./*.patch | sed 's,^\./,,; s,\.patch$,,')
fi
bad=0
for name; do
	patch=$here/$name.patch
	if ! git apply -p1 --recount "$patch" 2>why; then
		echo "$name: does not apply any more: $(head -n 1 why)" >&2
		bad=1
		continue
	fi
	rows adaptive >without && echo "| $(sed -n '1s/# without: //p' "$patch")$(same <without)" || bad=1
	git apply -p1 --recount -R "$patch"
done
rows 'signalbox,… batches of 4,… batches of 16' >fixed
sed -n '1s/.*/| fixed, concurrency alone& |/p' fixed
sed -n '2s/.*/| fixed, batches of 4& |/p' fixed
sed -n '3s/.*/| fixed, batches of 16& |/p' fixed
exit $bad
