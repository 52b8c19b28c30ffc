package plugin

import (
	"context"
	"log/slog"

	"github.com/usher-dev/usher/internal/rule"
)

// Candidates returns what p has counted.
func (p *Plugin) Candidates() []rule.CandidateState { return p.candidates() }

// LogCandidates logs what candidates have counted.
func LogCandidates(ctx context.Context, states func() []rule.CandidateState, log *slog.Logger) error {
	return logCandidates(ctx, states, log)
}
