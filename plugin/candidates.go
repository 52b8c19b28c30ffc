package plugin

import (
	"context"
	"log/slog"
	"time"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/deadline"
	"github.com/usher-dev/usher/internal/rule"
)

// countsEvery is how often what candidates have counted is logged, if it has changed.
const countsEvery = time.Minute

// logCandidates logs what candidates have counted, until ctx is done: a server has no metrics or status of Usher.
func logCandidates(ctx context.Context, states func() []rule.CandidateState, log *slog.Logger) error {
	logged := map[usher.PolicyRef]rule.CandidateState{}
	for deadline.Sleep(ctx, countsEvery) {
		now := states()
		next := make(map[usher.PolicyRef]rule.CandidateState, len(now))
		for i := range now {
			s, last := &now[i], logged[now[i].Ref]
			next[s.Ref] = *s
			if s.Counts == last.Counts && s.NotEffective == last.NotEffective && s.Since.Equal(last.Since) {
				continue
			}
			if s.NotEffective != "" {
				log.WarnContext(ctx, "candidate is not evaluated", "candidate", s.Ref.String(), "reason", s.NotEffective)
				continue
			}
			n := &s.Counts
			log.InfoContext(ctx, "candidate", "candidate", s.Ref.String(), "since", s.Since.Format(time.RFC3339), "seen", n.Seen, "skipped", n.Skipped,
				"newlyDenied", n.NewlyDenied, "newlyAllowed", n.NewlyAllowed, "warned", n.Warned, "changed", n.Changed, "errors", n.Errors)
		}
		logged = next
	}
	return nil
}
