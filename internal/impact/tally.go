package impact

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/internal/impact/diff"
	"github.com/usher-dev/usher/internal/podtemplate"
)

// A Row counts requests that one policy makes one kind of difference to.
type Row struct {
	Kind   diff.Kind       `json:"kind"`
	Policy usher.PolicyRef `json:"policy"`
	// Namespace is empty for cluster-scoped objects.
	Namespace string `json:"namespace,omitempty"`
	// Resource is that of the requests, such as deployments.apps or pods/exec. Of those to authorize it is
	// what was asked, such as list secrets.
	Resource string `json:"resource"`
	User     string `json:"user,omitempty"`
	// Owner is the controller of the objects, such as ReplicaSet web-5d8f7.
	Owner    string `json:"owner,omitempty"`
	Requests int    `json:"requests"`
	// Example is the first of the requests.
	Example Example `json:"example"`
	// Names are those of the first objects, three at most.
	Names []string `json:"names,omitempty"`
	// MoreNames says that there are other objects.
	MoreNames bool `json:"moreNames,omitempty"`
}

// An Example is one request of a [Row].
type Example struct {
	From string `json:"from"`
	// Operation is the verb of a request to authorize.
	Operation usher.Operation `json:"operation"`
	Name      string          `json:"name,omitempty"`
	User      string          `json:"user,omitempty"`
	Message   string          `json:"message,omitempty"`
}

// mostRows limits the rows that are kept: users and owners are as many as a log names.
const mostRows = 10_000

// A Tally counts differences. It is safe for concurrent use.
type Tally struct {
	mu sync.Mutex
	by By

	seen, concerned int
	requests        map[diff.Kind]int
	rows            map[place]*counted
	more            int
}

// By says what rows are about, besides the kind of difference and the policy.
type By struct{ Namespace, Resource, User, Owner bool }

type place struct {
	kind                             diff.Kind
	policy                           usher.PolicyRef
	namespace, resource, user, owner string
}

// A counted is a row, and the number of its example.
type counted struct {
	Row

	first int
	// names are the first objects, in the order of their requests.
	names []numbered
}

// A numbered is a name, with the number of the first request that has it.
type numbered struct {
	first int
	name  string
}

// mostNames is how many objects a row names.
const mostNames = 3

// addName keeps the names of the first objects, in whatever order they are counted.
func (c *counted) addName(number int, name string) {
	if name == "" {
		return
	}
	i := slices.IndexFunc(c.names, func(n numbered) bool { return n.name == name })
	if i < 0 {
		i, c.names = len(c.names), append(c.names, numbered{number, name})
	}
	c.names[i].first = min(c.names[i].first, number)
	slices.SortFunc(c.names, func(a, b numbered) int { return cmp.Compare(a.first, b.first) })
	if len(c.names) > mostNames {
		c.names, c.MoreNames = c.names[:mostNames], true
	}
}

// NewTally returns a tally without requests.
func NewTally(by By) *Tally {
	return &Tally{by: by, requests: map[diff.Kind]int{}, rows: map[place]*counted{}}
}

// Add counts a request, which is the number-th, with its differences.
func (t *Tally) Add(number int, s *Subject, concerned bool, differences []Difference) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seen++
	if concerned {
		t.concerned++
	}
	known := map[diff.Kind]bool{}
	for i := range differences {
		d := &differences[i]
		if !known[d.Kind] {
			known[d.Kind] = true
			t.requests[d.Kind]++
		}
		t.row(number, s, d)
	}
}

func (t *Tally) row(number int, s *Subject, d *Difference) {
	r := d.Request
	example := Example{From: s.From, Operation: usher.Operation(short(string(operationOf(r)))), Name: short(r.Name), User: short(r.User.Name), Message: short(d.Message)}
	at := place{kind: d.Kind, policy: d.Policy}
	if t.by.Namespace {
		at.namespace = short(r.Namespace)
	}
	if t.by.Resource {
		at.resource = short(Resource(r))
	}
	if t.by.User {
		at.user = short(r.User.Name)
	}
	if t.by.Owner {
		at.owner = short(ownerOf(r))
	}
	row := t.rows[at]
	if row == nil {
		if len(t.rows) == mostRows {
			t.more++
			return
		}
		row = &counted{Row: Row{
			Kind: at.kind, Policy: at.policy, Namespace: at.namespace, Resource: at.resource, User: at.user, Owner: at.owner, Example: example,
		}, first: number}
		t.rows[at] = row
	}
	row.Requests++
	row.addName(number, example.Name)
	if number < row.first {
		row.first, row.Example = number, example
	}
}

// short returns a text that is no longer than rows keep: a log may have names of megabytes.
func short(text string) string {
	const most = 1000
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// operationOf returns the operation of a request, and the verb of one to authorize.
func operationOf(r *usher.Request) usher.Operation {
	if r.Access != nil {
		return usher.Operation(r.Access.Verb)
	}
	return r.Operation
}

// Resource is the resource of a request, and with the verb what one to authorize asks for.
func Resource(r *usher.Request) string {
	if r.Access != nil && r.Access.NonResource {
		return r.Access.Verb + " " + r.Access.Path
	}
	name := r.Resource.GroupResource().String()
	if r.Subresource != "" {
		name += "/" + r.Subresource
	}
	if r.Access != nil {
		name = r.Access.Verb + " " + name
	}
	return name
}

// ownerOf names the controller of an object; empty if it has none.
func ownerOf(r *usher.Request) string {
	object, err := r.Target().Tree()
	if err != nil {
		return ""
	}
	owner := podtemplate.Controller(object)
	if owner == nil {
		return ""
	}
	kind, _ := owner["kind"].(string)
	name, _ := owner["name"].(string)
	return kind + " " + name
}

// A Summary is what a tally has counted.
type Summary struct {
	// Seen is how many requests there were, Compared how many of them a policy that differs is for.
	Seen     int `json:"seen"`
	Compared int `json:"compared"`
	// Requests are those with a difference, by its kind.
	Requests map[diff.Kind]int `json:"requests"`
	// Rows are sorted: by kind, the most requests first.
	Rows []Row `json:"rows"`
	// More is how many differences are in no row, since there are too many rows.
	More int `json:"more,omitempty"`
}

// Summary returns what was counted so far.
func (t *Tally) Summary() Summary {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := Summary{Seen: t.seen, Compared: t.concerned, Requests: map[diff.Kind]int{}, Rows: []Row{}, More: t.more}
	for _, kind := range diff.Kinds() {
		s.Requests[kind] = t.requests[kind]
	}
	for _, row := range t.rows {
		told := row.Row
		for _, n := range row.names {
			told.Names = append(told.Names, n.name)
		}
		s.Rows = append(s.Rows, told)
	}
	slices.SortFunc(s.Rows, func(a, b Row) int {
		return cmp.Or(
			cmp.Compare(slices.Index(diff.Kinds(), a.Kind), slices.Index(diff.Kinds(), b.Kind)), cmp.Compare(b.Requests, a.Requests),
			cmp.Compare(a.Policy.String(), b.Policy.String()), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Resource, b.Resource),
			cmp.Compare(a.User, b.User), cmp.Compare(a.Owner, b.Owner),
		)
	})
	return s
}
