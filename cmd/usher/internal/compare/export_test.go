package compare

import (
	"github.com/usher-dev/usher/cmd/internal/cli"
	"github.com/usher-dev/usher/internal/impact"
	"github.com/usher-dev/usher/internal/impact/diff"
)

// Printed returns a report with a row and a kind that could not be read, as text and as Markdown.
func Printed(row impact.Row, unread string) (text, markdown string) {
	r := &impactReport{
		Summary: impact.Summary{Seen: 1, Compared: 1, Requests: map[diff.Kind]int{row.Kind: row.Requests}, Rows: []impact.Row{row}},
		Missing: []string{unread}, lacking: 1,
		Unread: []unreadKind{{unread, unread}}, Searched: []searched{{Policy: row.Policy, Requests: 1, Kind: row.Kind, Message: row.Example.Message}},
	}
	return r.text(cli.Palette{}), r.markdown()
}
