package webhook

import (
	"context"

	"signalbox/account"
	"signalbox/queue"
)

// Store is where deliveries are remembered.
type Store interface {
	// Receive stores the facts of a delivery and applies its changes of
	// installations, all in one transaction, durable when it returns. A
	// delivery id that was seen before changes nothing and is no error
	// (fresh = false). Facts about a repository (named by the host's number
	// of it; 0 when there are none) that is not connected are dropped.
	Receive(ctx context.Context, delivery string, host string, repoHostID int64, facts []queue.Fact, connections []account.Connection) (fresh bool, err error)
}
