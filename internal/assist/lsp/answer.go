package lsp

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/usher-dev/usher/internal/assist"
)

// A question is a request about an open file.
type question struct {
	params  documentParams
	raw     json.RawMessage
	content *assist.Content
	service *assist.Service
	// found is what is wrong with the text, as far as it has been checked.
	found []assist.Diagnostic
}

// answers are what answers the requests about a file, by their method. Their result is null if there is none, or an error
// for the user.
func answers() map[string]func(context.Context, *question) any {
	return map[string]func(context.Context, *question) any{
		"textDocument/hover":      hovered,
		"textDocument/completion": completed,
		"textDocument/definition": defined,
		"textDocument/codeAction": corrected,
		"textDocument/formatting": formatted,
	}
}

// ask returns the answer of a question; null if there is a defect.
func (q *question) ask(ctx context.Context, answer func(context.Context, *question) any) (result any) {
	defer func() {
		if recover() != nil {
			result = nil
		}
	}()
	return answer(ctx, q)
}

func (q *question) offset() int { return q.content.Offset(q.params.Position) }

func hovered(ctx context.Context, q *question) any {
	h, ok := q.service.Hover(ctx, q.content.Text, q.offset())
	if !ok {
		return nil
	}
	return hover{markup{"markdown", h.Text}, q.content.Span(h.Range)}
}

// The kinds of completions in the protocol.
func kindOf(k assist.CompletionKind) int {
	switch k {
	case assist.FieldCompletion:
		return 5
	case assist.VariableCompletion:
		return 6
	case assist.FunctionCompletion:
		return 3
	case assist.ValueCompletion:
	}
	return 12
}

func completed(ctx context.Context, q *question) any {
	list := completionList{Items: []completionItem{}}
	for i, c := range q.service.Complete(ctx, q.content.Text, q.offset()) {
		item := completionItem{
			Label: c.Label, Kind: kindOf(c.Kind), Detail: c.Detail, FilterText: c.Label, SortText: fmt.Sprintf("%03d", i),
			TextEdit: edit{q.content.Span(c.Range), c.Insert},
		}
		if c.Text != "" {
			item.Documentation = &markup{"markdown", c.Text}
		}
		list.Items = append(list.Items, item)
	}
	return list
}

func defined(_ context.Context, q *question) any {
	at, ok := q.service.Definition(q.content.Text, q.offset())
	if !ok {
		return nil
	}
	return location{q.params.TextDocument, q.content.Span(at)}
}

func formatted(_ context.Context, q *question) any {
	all := []edit{}
	if strings.HasSuffix(nameOf(q.params.TextDocument.URI), ".json") {
		return all
	}
	edits, err := assist.Format(q.content.Text)
	if err != nil {
		return err
	}
	for _, e := range edits {
		all = append(all, edit{q.content.Span(e.Range), e.Insert})
	}
	return all
}

func corrected(_ context.Context, q *question) any {
	all := []codeAction{}
	var p codeActionParams
	if json.Unmarshal(q.raw, &p) != nil {
		return all
	}
	from, to := q.content.Offset(p.Range.Start), q.content.Offset(p.Range.End)
	for i := range q.found {
		d := &q.found[i]
		fix := d.Fix
		if fix == nil || d.From > to || d.To < from {
			continue
		}
		all = append(all, codeAction{
			Title: fix.Title, Kind: "quickfix", IsPreferred: true, Diagnostics: []diagnostic{diagnosticOf(q.content, d)},
			Edit: workspaceEdit{map[string][]edit{q.params.TextDocument.URI: {{q.content.Span(fix.Range), fix.Insert}}}},
		})
	}
	return all
}
