package lsp

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/usher-dev/usher/internal/assist"
)

// A question is a request about an open file.
type question struct {
	params  documentParams
	raw     json.RawMessage
	content *content
	service *assist.Service
}

// answers are what answers the requests about a file, by their method. Their result is null if there is none.
func answers() map[string]func(context.Context, *question) any {
	return map[string]func(context.Context, *question) any{
		"textDocument/hover":      hovered,
		"textDocument/completion": completed,
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

func (q *question) offset() int { return q.content.offset(q.params.Position) }

func hovered(ctx context.Context, q *question) any {
	h, ok := q.service.Hover(ctx, q.content.text, q.offset())
	if !ok {
		return nil
	}
	return hover{markup{"markdown", h.Text}, q.content.span(h.Range)}
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
	for i, c := range q.service.Complete(ctx, q.content.text, q.offset()) {
		item := completionItem{
			Label: c.Label, Kind: kindOf(c.Kind), Detail: c.Detail, FilterText: c.Label, SortText: fmt.Sprintf("%03d", i),
			TextEdit: edit{q.content.span(c.Range), c.Insert},
		}
		if c.Text != "" {
			item.Documentation = &markup{"markdown", c.Text}
		}
		list.Items = append(list.Items, item)
	}
	return list
}
