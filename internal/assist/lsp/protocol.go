package lsp

import (
	"encoding/json"

	"github.com/usher-dev/usher/internal/assist"
)

// The part of the Language Server Protocol 3.17 that is used. Positions are in units of UTF-16.

type identifier struct {
	URI string `json:"uri"`
}

type openParams struct {
	TextDocument struct {
		identifier

		Version int    `json:"version"`
		Text    string `json:"text"`
	} `json:"textDocument"`
}

type changeParams struct {
	TextDocument struct {
		identifier

		Version int `json:"version"`
	} `json:"textDocument"`
	ContentChanges []struct {
		Range *assist.Span `json:"range,omitempty"`
		Text  string       `json:"text"`
	} `json:"contentChanges"`
}

// documentParams are those of all requests about a document; those without a position have none.
type documentParams struct {
	TextDocument identifier      `json:"textDocument"`
	Position     assist.Position `json:"position"`
}

type diagnostic struct {
	Range    assist.Span `json:"range"`
	Severity int         `json:"severity"`
	Source   string      `json:"source"`
	Message  string      `json:"message"`
}

type diagnosticsParams struct {
	identifier

	Version     int          `json:"version"`
	Diagnostics []diagnostic `json:"diagnostics"`
}

type markup struct {
	Kind  string `json:"kind"`
	Value string `json:"value"`
}

type hover struct {
	Contents markup      `json:"contents"`
	Range    assist.Span `json:"range"`
}

type edit struct {
	Range   assist.Span `json:"range"`
	NewText string      `json:"newText"`
}

type completionItem struct {
	Label         string  `json:"label"`
	Kind          int     `json:"kind"`
	Detail        string  `json:"detail,omitempty"`
	Documentation *markup `json:"documentation,omitempty"`
	SortText      string  `json:"sortText"`
	FilterText    string  `json:"filterText"`
	TextEdit      edit    `json:"textEdit"`
}

type completionList struct {
	IsIncomplete bool             `json:"isIncomplete"`
	Items        []completionItem `json:"items"`
}

type initializeResult struct {
	Capabilities map[string]any    `json:"capabilities"`
	ServerInfo   map[string]string `json:"serverInfo"`
}

type cancelParams struct {
	ID json.RawMessage `json:"id"`
}

type location struct {
	identifier

	Range assist.Span `json:"range"`
}

type codeActionParams struct {
	Range assist.Span `json:"range"`
}

type codeAction struct {
	Title string        `json:"title"`
	Kind  string        `json:"kind"`
	Edit  workspaceEdit `json:"edit"`
	// Diagnostics are those that it corrects.
	Diagnostics []diagnostic `json:"diagnostics"`
	IsPreferred bool         `json:"isPreferred"`
}

type workspaceEdit struct {
	Changes map[string][]edit `json:"changes"`
}

// capabilities are what the server can do.
func capabilities() map[string]any {
	return map[string]any{
		"positionEncoding":           "utf-16",
		"textDocumentSync":           map[string]any{"openClose": true, "change": 1},
		"hoverProvider":              true,
		"definitionProvider":         true,
		"documentFormattingProvider": true,
		"codeActionProvider":         map[string]any{"codeActionKinds": []string{"quickfix"}},
		"completionProvider":         map[string]any{"triggerCharacters": []string{"."}},
	}
}
