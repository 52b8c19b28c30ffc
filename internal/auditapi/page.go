package auditapi

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/audit/result"
	"github.com/usher-dev/usher/internal/rule"
)

// A query is the parameters of a request.
type query struct {
	limit    int
	after    cursor
	policy   string
	kind     string
	statuses []result.Status
}

// parseQuery reads the parameters. One that there is not is an error: otherwise a misspelled filter
// would show everything.
func parseQuery(values url.Values) (query, error) {
	q := query{limit: defaultLimit}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		value := values.Get(name)
		var err error
		switch name {
		case "limit":
			if q.limit, err = strconv.Atoi(value); err != nil || q.limit < 1 {
				return q, fmt.Errorf("limit %q is not a number from 1 to %d", value, maxLimit)
			}
			q.limit = min(q.limit, maxLimit)
		case "continue":
			q.after, err = parseCursor(value)
		case "policy":
			q.policy = value
		case "kind":
			q.kind = value
		case "status":
			q.statuses, err = parseStatuses(values[name])
		case "watch":
		default:
			err = fmt.Errorf("there is no parameter %q: use limit, continue, policy, kind, status", name)
		}
		if err != nil {
			return q, err
		}
	}
	return q, nil
}

func parseStatuses(texts []string) ([]result.Status, error) {
	var statuses []result.Status
	for name := range strings.SplitSeq(strings.Join(texts, ","), ",") {
		if !slices.Contains(result.Statuses(), result.Status(name)) {
			return nil, fmt.Errorf("status %q is none of %v", name, result.Statuses())
		}
		statuses = append(statuses, result.Status(name))
	}
	return statuses, nil
}

// selects reports whether the filters let a result pass.
func (q *query) selects(r *result.Result) bool {
	return (q.policy == "" || rule.Names(q.policy, r.Policy)) && (q.kind == "" || strings.EqualFold(q.kind, r.Object.Kind)) &&
		(len(q.statuses) == 0 || slices.Contains(q.statuses, r.Status))
}

// A cursor is where a page ends: after a number of results of a namespace, of which the last one has
// this hash. The zero cursor is the beginning.
type cursor struct {
	Namespace string `json:"n"`
	Index     int    `json:"i"`
	Hash      uint64 `json:"h,string"`
	// Started says that the cursor is not the zero cursor, which has the same namespace.
	Started bool `json:"s"`
}

// String returns the value of the parameter continue; empty for the zero cursor.
func (c cursor) String() string {
	if !c.Started {
		return ""
	}
	text, err := json.Marshal(c)
	if err != nil {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

func parseCursor(text string) (cursor, error) {
	var c cursor
	if text == "" {
		return c, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		err = json.Unmarshal(raw, &c)
	}
	if err != nil || c.Index < 0 || !c.Started {
		return c, fmt.Errorf("continue %q is not that of a page", text)
	}
	return c, nil
}

// resume returns the index of the first result after the cursor. It is false if the last result
// before it is no longer there.
func (c cursor) resume(results []result.Result) (int, bool) {
	if c.Index == 0 {
		return 0, true
	}
	if c.Index <= len(results) && hash(&results[c.Index-1]) == c.Hash {
		return c.Index, true
	}
	for i := range results {
		if hash(&results[i]) == c.Hash {
			return i + 1, true
		}
	}
	return 0, false
}

// hash identifies a result among those of its namespace.
func hash(r *result.Result) uint64 {
	h := fnv.New64a()
	for _, part := range []string{
		r.Object.APIVersion, r.Object.Kind, r.Object.Name, string(r.Object.UID), r.Policy.String(), r.Rule, r.Validation, string(r.Status), r.Field, r.Message,
	} {
		_, _ = h.Write(append([]byte(part), 0))
	}
	return h.Sum64()
}

// A page is made of the results of a reader.
type page struct {
	reader    result.Reader
	query     query
	namespace string

	items  []result.Result
	counts result.Counts
	kinds  []result.KindStatus
	next   cursor
	// bytes is about the size of the items, and read how many results were read for them.
	bytes, read int
}

// fill adds results until the page is full, or ctx is done.
func (p *page) fill(ctx context.Context) error {
	p.items, p.counts = []result.Result{}, result.Counts{}
	if !p.query.after.Started {
		p.addKinds()
	}
	namespaces := []string{p.namespace}
	if p.namespace == "" {
		namespaces = p.reader.Namespaces()
	}
	for _, namespace := range namespaces {
		if after := p.query.after; after.Started && namespace < after.Namespace {
			continue
		}
		if ctx.Err() != nil {
			return apierrors.NewTimeoutError("the request took too long: ask for a namespace", 1)
		}
		results, counts := p.reader.Namespace(namespace)
		full, err := p.add(namespace, results)
		if full || err != nil {
			return err
		}
		p.addCounts(counts)
	}
	return nil
}

// addCounts adds the counts of a namespace.
func (p *page) addCounts(counts result.Counts) {
	for policy, summary := range counts {
		if _, known := p.counts[policy]; !known && p.shows(policy) {
			p.bytes += policyBytes
		}
		p.counts.Add(policy, summary)
	}
}

// shows reports whether the page has the counts of a policy.
func (p *page) shows(policy usher.PolicyRef) bool {
	return policy.Name != "" && (p.query.policy == "" || rule.Names(p.query.policy, policy))
}

// policies returns the counts of policies, sorted.
func (p *page) policies() (all []result.PolicySummary) {
	for policy, summary := range p.counts {
		if p.shows(policy) {
			all = append(all, result.PolicySummary{PolicyRef: policy, Summary: summary})
		}
	}
	slices.SortFunc(all, func(a, b result.PolicySummary) int { return cmp.Compare(a.String(), b.String()) })
	return all
}

// add adds the results of a namespace. It reports whether the page is full before their end.
func (p *page) add(namespace string, results []result.Result) (full bool, err error) {
	from := 0
	if after := p.query.after; after.Started && after.Namespace == namespace {
		ok := false
		if from, ok = after.resume(results); !ok {
			return false, apierrors.NewResourceExpired("the results have changed since the page before: list them again")
		}
	}
	for i := from; i < len(results); i++ {
		r := &results[i]
		p.read++
		if p.read <= maxRead && !p.query.selects(r) {
			continue
		}
		if len(p.items) == p.query.limit || p.bytes > maxBytes || p.read > maxRead {
			p.next = cursor{Namespace: namespace, Index: i, Started: true}
			if i > 0 {
				p.next.Hash = hash(&results[i-1])
			}
			return true, nil
		}
		p.items = append(p.items, *r)
		p.bytes += sizeOf(r)
	}
	return false, nil
}

// sizeOf is about how long a result is as JSON.
func sizeOf(r *result.Result) int {
	return 300 + 2*(len(r.Message)+len(r.Field)) + len(r.Rule) + len(r.Validation) + len(r.Object.Name) + len(r.Object.Namespace) + len(r.Policy.Name)
}

// addKinds adds the states of the kinds. One namespace says nothing of others.
func (p *page) addKinds() {
	for _, state := range p.reader.Kinds() {
		status := state.Status()
		if p.namespace != "" {
			if !state.Kind.Namespaced {
				continue
			}
			status.Objects, status.Backlog = 0, 0
			if status.Error != "" {
				status.Error = "cannot be read"
			}
		}
		p.kinds = append(p.kinds, status)
	}
}
