package db

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jmoiron/sqlx"
	"github.com/klauspost/compress/zstd"
	"github.com/lib/pq"

	"signalbox/queue"
)

// maxNames bounds, in bytes, what is unpacked of one set of impacted targets.
const maxNames = 256 << 20

// SetImpactedTargets stores what a pull request impacts at a head commit:
// everything, or the named targets, none of them included. Order and
// repetitions do not matter, and a name that is empty names nothing. Nobody
// need know the pull request yet. The queues that it is in hear of it.
// Uploading what is known already changes nothing. ErrNotFound: no such
// repository.
func (db *DB) SetImpactedTargets(ctx context.Context, repo queue.RepoID, pr int64, head string, names []string, everything bool) error {
	if pr < 1 || pr > queue.MaxNumber || head == "" {
		return fmt.Errorf("store impacted targets: #%d at commit %q is not a pull request's head", pr, head)
	}
	row := db.packTargets(names, everything)
	row.head = clean(head)
	rows, err := rowsOfFacts([]queue.Fact{queue.TargetsUploaded{PR: pr, Head: row.head}})
	if err != nil {
		return err
	}
	err = db.transact(ctx, readWrite, func(tx *sqlx.Tx) error {
		fresh, err := row.insert(ctx, tx, repo, pr, stamp(db.clock()))
		if err != nil || !fresh {
			return err
		}
		return db.insertFacts(ctx, tx, repo, 0, rows)
	})
	return fail(fmt.Sprintf("store the impacted targets of #%d", pr), missingIs(err, queue.ErrNotFound))
}

// packed is a set of impacted targets as its table has it.
type packed struct {
	head       string
	everything bool
	count      int
	hashes     []byte
	names      []byte
}

// packTargets sorts, hashes and compresses names.
func (db *DB) packTargets(names []string, everything bool) packed {
	if everything {
		return packed{everything: true, hashes: []byte{}, names: []byte{}}
	}
	kept := make([]string, 0, len(names))
	size := 0
	for _, name := range names {
		if name = clean(name); name != "" { // NUL separates names
			kept = append(kept, name)
			size += len(name) + 1
		}
	}
	slices.Sort(kept)
	kept = slices.Compact(kept)
	p := packed{count: len(kept), hashes: packHashes(queue.NewTargetSet(kept).Hashes), names: []byte{}}
	if len(kept) > 0 {
		text := make([]byte, 0, size)
		for i, name := range kept {
			if i > 0 {
				text = append(text, 0)
			}
			text = append(text, name...)
		}
		p.names = db.zip.EncodeAll(text, p.names)
	}
	return p
}

// insert stores a set unless the newest of its head is the same.
func (p packed) insert(ctx context.Context, tx *sqlx.Tx, repo queue.RepoID, pr int64, now stamp) (fresh bool, err error) {
	result, err := tx.ExecContext(ctx, `
		INSERT INTO impacted_targets (repository_id, pr, head, everything, count, hashes, names, created_at)
		SELECT $1, $2, $3, $4, $5, $6, $7, $8
		WHERE NOT EXISTS (SELECT 1 FROM impacted_targets t
			WHERE t.id = (SELECT id FROM impacted_targets WHERE repository_id = $1 AND pr = $2 AND head = $3 ORDER BY id DESC LIMIT 1)
				AND t.everything = $4 AND t.count = $5 AND t.hashes = $6 AND t.names = $7)`,
		int64(repo), pr, p.head, p.everything, p.count, p.hashes, p.names, now)
	if err != nil {
		return false, fmt.Errorf("insert: %w", err)
	}
	n, err := result.RowsAffected()
	return n == 1, err
}

// packHashes writes hashes one after the other, and unpackHashes reads them.
func packHashes(hashes []uint64) []byte {
	raw := make([]byte, 0, 8*len(hashes))
	for _, h := range hashes {
		raw = binary.LittleEndian.AppendUint64(raw, h)
	}
	return raw
}

func unpackHashes(raw []byte) []uint64 {
	hashes := make([]uint64, len(raw)/8)
	for i := range hashes {
		hashes[i] = binary.LittleEndian.Uint64(raw[8*i:])
	}
	return hashes
}

// unpackNames reads names as packTargets wrote them.
func (db *DB) unpackNames(raw []byte) ([]string, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	text, err := db.unzip.DecodeAll(raw, nil)
	if err != nil {
		return nil, fmt.Errorf("unpack the names of impacted targets: %w", err)
	}
	return strings.Split(string(text), "\x00"), nil
}

// ImpactedTargets is what the pull requests of a chain impact together: the names
// in order, of the sets that counted when the chain was begun, and for a step
// without one of the newest set of its head. known is false when nothing was uploaded for any of them, or it is no longer
// kept; everything is true when one of them impacts everything.
func (db *DB) ImpactedTargets(ctx context.Context, repo queue.RepoID, chain []queue.Step) (names []string, everything, known bool, err error) {
	var ids, prs []int64
	var heads []string
	for _, step := range chain {
		if step.Targets != 0 {
			ids = append(ids, int64(step.Targets))
		} else {
			prs, heads = append(prs, step.PR), append(heads, clean(step.Head))
		}
	}
	newest, err := newestTargets(ctx, db.sql, repo, prs, heads)
	if err != nil {
		return nil, false, false, fail("read impacted targets", err)
	}
	var rows []struct {
		Everything bool   `json:"everything"`
		Names      []byte `json:"names"`
	}
	ids = append(ids, numbered(slices.Collect(maps.Values(newest)))...)
	if err := db.sql.SelectContext(ctx, &rows, `SELECT everything, names FROM impacted_targets WHERE id = ANY($1) AND repository_id = $2`,
		pq.Array(ids), int64(repo)); err != nil {
		return nil, false, false, fail("read impacted targets", err)
	}
	for _, row := range rows {
		if row.Everything {
			return nil, true, true, nil
		}
		more, err := db.unpackNames(row.Names)
		if err != nil {
			return nil, false, false, err
		}
		names = append(names, more...)
	}
	slices.Sort(names)
	return slices.Compact(names), false, len(rows) > 0, nil
}

// newZip makes what compresses and what unpacks, for any number of goroutines.
func newZip() (*zstd.Encoder, *zstd.Decoder, error) {
	zip, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(2), zstd.WithWindowSize(1<<20))
	unzip, err2 := zstd.NewReader(nil, zstd.WithDecoderConcurrency(2), zstd.WithDecoderMaxMemory(maxNames))
	return zip, unzip, errors.Join(err, err2)
}
