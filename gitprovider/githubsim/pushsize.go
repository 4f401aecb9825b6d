package githubsim

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// sizeMark begins a refusal of files that are too large, which GitHub tells
// under a code of its own.
const sizeMark = "\x02"

// defaultMaxFile is GitHub's limit for one file.
// https://docs.github.com/en/repositories/working-with-files/managing-large-files/about-large-files-on-github
const defaultMaxFile = 100 << 20

// bringsLarge reports whether a push brings an object that is larger than most
// bytes. What the repository has already is not in a push, and not looked at:
// GitHub looks at what is new, too.
func bringsLarge(push []byte, most int64) (bool, error) {
	_, pack, found := bytes.Cut(push, []byte("0000PACK"))
	if !found || len(pack) < 8 {
		return false, nil
	}
	objects := binary.BigEndian.Uint32(pack[4:8])
	in := bufio.NewReader(bytes.NewReader(pack[8:]))
	for range objects {
		size, err := packedSize(in)
		if err != nil {
			return false, fmt.Errorf("read the objects of a push: %w", err)
		}
		if size > most {
			return true, nil
		}
	}
	return false, nil
}

// The types of packed objects that are differences to another.
const (
	offsetDelta = 6
	refDelta    = 7
)

// packedSize reads one object of a pack and returns how large it is, unpacked
// and put together. https://git-scm.com/docs/pack-format
func packedSize(in *bufio.Reader) (int64, error) {
	first, err := in.ReadByte()
	if err != nil {
		return 0, err
	}
	kind, size := first>>4&7, int64(first&15)
	for shift, b := 4, first; b&0x80 != 0; shift += 7 {
		if b, err = in.ReadByte(); err != nil {
			return 0, err
		}
		if shift > 56 {
			return 0, errors.New("the size of an object is no number")
		}
		size |= int64(b&0x7f) << shift
	}
	switch kind {
	case offsetDelta:
		for b := byte(0x80); b&0x80 != 0; {
			if b, err = in.ReadByte(); err != nil {
				return 0, err
			}
		}
	case refDelta:
		if _, err := in.Discard(20); err != nil {
			return 0, err
		}
	}
	body, err := zlib.NewReader(in)
	if err != nil {
		return 0, err
	}
	if kind == offsetDelta || kind == refDelta {
		delta := bufio.NewReader(body)
		if _, err := binary.ReadUvarint(delta); err != nil { // of what it is a difference to
			return 0, err
		}
		whole, err := binary.ReadUvarint(delta)
		if err != nil {
			return 0, err
		}
		size = int64(min(whole, 1<<62))
		_, err = io.Copy(io.Discard, delta)
		return size, err
	}
	_, err = io.Copy(io.Discard, body)
	return size, err
}

// tooLarge says which file of a change is too large, in GitHub's words; "" =
// none.
func (g *gitStore) tooLarge(c fileChange, most int64) (string, error) {
	if c.Status == "removed" {
		return "", nil
	}
	_, kind, content, err := g.cat.object(c.SHA)
	if err != nil || kind != "blob" || int64(len(content)) <= most {
		return "", err
	}
	mb := func(n int64) float64 { return float64(n) / (1 << 20) }
	return fmt.Sprintf("%sFile %s is %.2f MB; this exceeds GitHub's file size limit of %.2f MB", sizeMark, c.Path, mb(int64(len(content))), mb(most)), nil
}
