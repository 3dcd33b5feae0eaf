package transport

import (
	"log/slog"
	"sync"
)

// warned holds the texts already logged. They are made of settings and kernel limits, so there are
// few; eight connections with the same small buffer are one warning to a person.
var warned sync.Map

func warnOnce(logger *slog.Logger, text string) {
	if _, before := warned.LoadOrStore(text, true); !before {
		logger.Warn(text)
	}
}
