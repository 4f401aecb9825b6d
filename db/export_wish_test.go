package db

import "signalbox/queue"

// StoreWishesTogether writes wishes about a pull request, one for each of the
// queues, as one batch, and returns what their senders would be told.
func (db *DB) StoreWishesTogether(repo queue.RepoID, fact queue.Fact, queues ...queue.ID) ([]error, error) {
	rows, err := rowsOfFacts([]queue.Fact{fact})
	if err != nil {
		return nil, err
	}
	var batch []*wish
	for _, q := range queues {
		batch = append(batch, &wish{row: wishRow{int64(repo), int64(q), rows[0]}, stored: make(chan error, 1), left: true})
	}
	db.storeWishes(batch)
	told := make([]error, len(batch))
	for i, w := range batch {
		told[i] = <-w.stored
	}
	return told, nil
}
