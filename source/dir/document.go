package dir

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unicode"
	"unicode/utf8"

	yamlv3 "go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/runtime/schema"
	sigsjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/usher-dev/usher/api"
	"github.com/usher-dev/usher/internal/manifest"
)

// parse returns the documents of a file, without those of other API groups.
func parse(path string, content []byte) []found { return parseWith(path, content, parseYAML) }

// parseWith is parse with what reads documents of YAML, several at a time.
func parseWith(path string, content []byte, read func(document) []found) []found {
	if filepath.Ext(path) == ".json" {
		return parseJSON(path, content)
	}
	documents := manifest.Split(content)
	if len(documents) > manifest.MaxDocuments {
		return broken(api.Position{File: path}, fmt.Errorf("read policies: file has %d documents, more than %d: make several files of it", len(documents), manifest.MaxDocuments))
	}
	// One after the other takes seconds for as many as there may be.
	parts := make([][]found, len(documents))
	parallel(len(documents), func(i int) {
		parts[i] = read(document{Document: documents[i], file: path})
	})
	return slices.Concat(parts...)
}

// maxLists is how many lists may be in one another: each is decoded with all that is in it.
const maxLists = 8

// parallel calls do for each of n numbers, on all processors.
func parallel(n int, do func(i int)) {
	const share = 64
	var next atomic.Int64
	var group sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), (n+share-1)/share) {
		group.Go(func() {
			for from := next.Add(share) - share; from < int64(n); from = next.Add(share) - share {
				for i := from; i < min(from+share, int64(n)); i++ {
					do(int(i))
				}
			}
		})
	}
	group.Wait()
}

// A document is one of possibly several in a file. Before its text there are indent characters in its first line.
type document struct {
	manifest.Document
	file   string
	indent int
}

func (d document) at(line int) api.Position { return api.Position{File: d.file, Line: line} }

// within converts a line of the text, counted from 1 by a YAML parser. YAML has more line breaks than
// the line feed.
func (d document) within(line int) api.Position {
	return d.at(d.Line + min(max(line-1, 0), bytes.Count(d.Text, []byte("\n"))))
}

func broken(at api.Position, err error) []found { return []found{{at: at, unreadable: err}} }

func parseYAML(d document) []found {
	if text := d.Body(); bytes.HasPrefix(text, []byte("{")) {
		if json.Valid(text) {
			return examine(text, &places{document: d, text: flow(d.Text)}, "")
		}
		if !alone(text) {
			return broken(d.at(d.First), errors.New("parse YAML: more follows after the closing }; put --- between objects"))
		}
	}
	p := &places{document: d, text: d.Text}
	raw, err := yaml.YAMLToJSONStrict(d.Text)
	if err != nil {
		// It may be no worse than a field that is written twice.
		if raw, err = yaml.YAMLToJSON(d.Text); err != nil {
			return yamlError(d, err)
		}
		p.repeats = true
	}
	return examine(raw, p, "")
}

// alone reports whether nothing follows the first value in text. YAML parsers would ignore it, and
// with it a policy.
func alone(text []byte) bool {
	decoder := yamlv3.NewDecoder(bytes.NewReader(text))
	var node yamlv3.Node
	if decoder.Decode(&node) != nil {
		// Its reader reports the error.
		return true
	}
	return errors.Is(decoder.Decode(&node), io.EOF)
}

// yamlError returns the place and the reason of a parser's error.
func yamlError(d document, err error) []found {
	line, text := manifest.Fault(err)
	line = max(line, 1)
	lines := strings.Split(string(d.Text), "\n")
	if slices.ContainsFunc(lines[min(max(line-2, 0), len(lines)):min(line, len(lines))], quotedBeginning.MatchString) {
		text += "; a value that begins with a quote ends with the next one: write |- after the colon, and the whole text on a line of its own below"
	}
	return broken(d.within(line), fmt.Errorf("parse YAML: %s%s", text, manifest.Unrendered(d.Text)))
}

// quotedBeginning finds a value, such as an expression, of which YAML takes the beginning for the whole, because it
// is in quotes.
var quotedBeginning = regexp.MustCompile(`(^|\s)[\w-]+:\s+("[^"]*"|'[^']*')\s*[^\s#,}\]]`)

// parseJSON reads one JSON value after the other.
func parseJSON(path string, content []byte) []found {
	var all []found
	content = bytes.TrimRightFunc(content, unicode.IsSpace)
	decoder := json.NewDecoder(bytes.NewReader(content))
	line, indent, counted := 1, 0, 0
	for n, rest := 0, content; len(bytes.TrimSpace(rest)) > 0; n, rest = n+1, content[decoder.InputOffset():] {
		if n == manifest.MaxDocuments {
			return append(all, broken(api.Position{File: path}, fmt.Errorf("read policies: file has more than %d documents: make several files of it", manifest.MaxDocuments))...)
		}
		var raw json.RawMessage
		if err := decoder.Decode(&raw); err != nil {
			at := api.Position{File: path, Line: jsonErrorLine(content, rest)}
			return append(all, broken(at, fmt.Errorf("parse JSON: %w", err))...)
		}
		start := int(decoder.InputOffset()) - len(raw)
		before := content[counted:start]
		if lines := bytes.Count(before, []byte("\n")); lines > 0 {
			line, indent, before = line+lines, 0, before[bytes.LastIndexByte(before, '\n')+1:]
		}
		indent, counted = indent+utf8.RuneCount(before), start
		d := document{Document: manifest.Document{Line: line, First: line, Text: raw}, file: path, indent: indent}
		all = append(all, examine(raw, &places{document: d, text: flow(raw)}, "")...)
	}
	return all
}

// jsonErrorLine returns the line of the first error in rest, the end of content.
func jsonErrorLine(content, rest []byte) int {
	at := len(bytes.TrimRight(content, " \t\r\n"))
	var syntax *json.SyntaxError
	if err := json.Unmarshal(rest, new(json.RawMessage)); errors.As(err, &syntax) {
		at = min(at, len(content)-len(rest)+int(syntax.Offset)-1)
	}
	return 1 + bytes.Count(content[:max(at, 0)], []byte("\n"))
}

var jsonEscape = regexp.MustCompile(`\\(?:u[0-9a-fA-F]{4}|.)`)

// flow converts JSON for a YAML parser, which accepts neither tabs nor all of the escapes. It
// preserves positions.
func flow(raw []byte) []byte {
	return jsonEscape.ReplaceAllFunc(bytes.ReplaceAll(raw, []byte("\t"), []byte(" ")), func(escape []byte) []byte {
		return bytes.Repeat([]byte("_"), utf8.RuneCount(escape))
	})
}

// examine returns the entries of an object: none if it is of another group, otherwise one for
// itself or for every item. Prefix is its path in the document.
func examine(raw []byte, p *places, prefix string) []found {
	var head struct {
		APIVersion string            `json:"apiVersion"`
		Kind       string            `json:"kind"`
		Items      []json.RawMessage `json:"items"`
	}
	// A document that is not an object with a kind is ignored.
	_ = sigsjson.UnmarshalCaseSensitivePreserveInts(raw, &head)
	kind := schema.FromAPIVersionAndKind(head.APIVersion, head.Kind)
	item := kind.GroupVersion().WithKind(strings.TrimSuffix(kind.Kind, "List"))
	switch {
	case strings.HasSuffix(head.Kind, "List") && (head.APIVersion == "v1" || ours(kind.Group) || isForeign(item) || isAdmissionPolicy(item)):
		if strings.Count(prefix, "items[") >= maxLists {
			return broken(p.kind(prefix), fmt.Errorf("read policies: more than %d lists are in one another", maxLists))
		}
		var all []found
		for i, item := range head.Items {
			all = append(all, examine(ofList(item, kind), p, fmt.Sprintf("%sitems[%d].", prefix, i))...)
		}
		return all
	case kind == schema.GroupVersionKind{Group: "usher.dev", Version: "v1alpha1", Kind: "PolicyPack"}:
		// It describes a folder of policies, and is none.
		return nil
	case ours(kind.Group) || isForeign(kind):
		return []found{examinePolicy(raw, kind, p, prefix)}
	case isAdmissionPolicy(kind):
		return []found{unsupported(raw, kind, p.kind(prefix))}
	case head.APIVersion == "":
		return examineUnversioned(head.Kind, func() api.Position { return p.kind(prefix) })
	}
	if engine, do := foreignEngine(kind); engine != "" {
		return []found{ofOtherEngine(raw, kind, engine, do, p.kind(prefix))}
	}
	return nil
}

// ofList returns an item of a list with the kind that it has: API servers leave it out in lists of
// one kind.
func ofList(item json.RawMessage, list schema.GroupVersionKind) json.RawMessage {
	kind := strings.TrimSuffix(list.Kind, "List")
	var head map[string]json.RawMessage
	if kind == "" || json.Unmarshal(item, &head) != nil || head["apiVersion"] != nil || head["kind"] != nil {
		return item
	}
	at := bytes.IndexByte(item, '{') + 1
	separator := ","
	if len(head) == 0 {
		separator = ""
	}
	return slices.Concat(item[:at], fmt.Appendf(nil, `"apiVersion":%q,"kind":%q%s`, list.GroupVersion(), kind, separator), item[at:])
}

// examineUnversioned reports a policy without an apiVersion, which would be ignored otherwise.
func examineUnversioned(kind string, at func() api.Position) []found {
	for _, known := range api.Kinds() {
		if known.Kind == kind {
			err := fmt.Errorf("%s: apiVersion is missing, it should be %s", kind, known.GroupVersion())
			return broken(at(), err)
		}
	}
	return nil
}

// ours reports whether an API group is one of those that have policies.
func ours(group string) bool {
	return strings.HasSuffix(group, ".usher.dev") || api.IsGroup(group)
}

// isForeign reports whether a kind is one of Kubernetes that says something to Usher.
func isForeign(gvk schema.GroupVersionKind) bool {
	kind, ok := api.KindNamed(gvk)
	return ok && kind.Foreign
}

// isAdmissionPolicy reports whether a kind is one of Kubernetes' admission policies, in any version.
// Usher supports those that are foreign kinds.
func isAdmissionPolicy(gvk schema.GroupVersionKind) bool {
	kind, ok := api.KindCalled(gvk.Kind)
	return ok && kind.Foreign && kind.Group == gvk.Group
}

// unsupported is an admission policy that nothing would enforce: to ignore it would let through what
// its author believes to be denied or changed.
func unsupported(raw []byte, gvk schema.GroupVersionKind, at api.Position) found {
	return found{
		at:         at,
		unreadable: fmt.Errorf("%s %s: Usher does not support %s %s yet, and does not enforce this object", gvk.Kind, nameOf(raw), gvk.GroupVersion(), gvk.Kind),
		do:         "apply it to the cluster, which enforces it, and remove it from the policies of Usher",
	}
}

func examinePolicy(raw []byte, gvk schema.GroupVersionKind, p *places, prefix string) found {
	locate := func(field string, line, column int) api.Position { return p.inside(prefix, field, line, column) }
	policy, err := api.Decode(raw)
	if err != nil {
		field := ""
		if errors.Is(err, api.ErrUnknownKind) {
			field, err = "kind", fmt.Errorf("%w; %s", err, kindHint(gvk))
		}
		if mismatch, ok := errors.AsType[*api.TypeError](err); ok {
			field = mismatch.Field()
		}
		return found{at: locate(field, 0, 0), unreadable: err}
	}
	policy.Locate = locate
	policy.Duplicate = append(policy.Duplicate, p.duplicates(prefix)...)
	slices.Sort(policy.Duplicate)
	kind, _ := api.KindOf(policy.Object)
	f := found{policy: policy, at: locate("", 0, 0)}
	switch {
	case policy.Object.GetName() == "":
		f.at, f.unreadable = locate("metadata", 0, 0), fmt.Errorf("%s: metadata.name is missing", kind.Kind)
	case !kind.Namespaced:
		policy.Object.SetNamespace("")
	case policy.Object.GetNamespace() == "":
		f.at = locate("metadata", 0, 0)
		f.unreadable = fmt.Errorf("%s %s: metadata.namespace is missing, the policy is for objects of one namespace: write it into the file, although kubectl -n would set it", kind.Kind, policy.Object.GetName())
	}
	return f
}
