package report

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"hash/fnv"
	"strings"
	"sync"

	"github.com/usher-dev/usher/internal/rule"
)

// A Snapshot is what one replica enforces at one time.
type Snapshot struct {
	// Generation counts the snapshots of this replica. It is informative: generations of different
	// replicas are unrelated.
	Generation int64
	Policies   []rule.State
	// Unregistered is why API servers may not send everything that the policies need; empty if they
	// do. Versions that were enforced before are assumed to be still registered.
	Unregistered string
}

// Calls reports whether API servers request decisions.
type Calls struct {
	State CallState
	// Message says why they do not, or why that is unknown.
	Message string
}

// A CallState is what is known about the calls of API servers.
type CallState int

// The states. CallsAssumed, the zero value, means that calls are not verified; CallsAwaited that
// there is no result yet.
const (
	CallsAssumed CallState = iota
	CallsAwaited
	CallsSeen
	CallsMissing
	CallsUnknown
)

// A view is a snapshot with the rest of what the replica publishes.
type view struct {
	Snapshot

	calls Calls
	// digests are computed when they are first asked for; nil before the first snapshot.
	digests func() digests
	// failures changes when the set of failing policies does.
	failures int
	// superseded is closed when there is a newer view.
	superseded chan struct{}
}

func newView(s Snapshot) *view {
	return &view{
		Snapshot:   s,
		digests:    sync.OnceValue(func() digests { return digest(s.Policies) }),
		superseded: make(chan struct{}),
	}
}

// The policies of the cluster have clusterShards, by their UID, and those of namespaces the others, by their namespace.
const (
	clusterShards = 32
	shards        = 90
)

// digests identify the policies in force and their generations, with one number per shard. Each is
// a sum over the policies of the shard, so that their order does not matter.
type digests [shards]uint64

func digest(policies []rule.State) digests {
	var d digests
	var text []byte
	for i := range policies {
		p := &policies[i]
		if p.UID == "" {
			continue
		}
		text = append(text[:0], p.UID...)
		text = binary.BigEndian.AppendUint64(text, uint64(p.Generation))
		text = binary.BigEndian.AppendUint64(text, uint64(p.InForce()))
		sum := sha256.Sum256(text)
		d[shardOf(p)] += binary.BigEndian.Uint64(sum[:])
	}
	return d
}

// shardOf returns the shard of a policy. Somebody who writes the policies of their namespace again and again makes
// replicas differ in the shard of that namespace only.
func shardOf(p *rule.State) int {
	h := fnv.New32a()
	if namespace := p.Policy.Namespace; namespace != "" {
		h.Write([]byte(namespace))
		return clusterShards + int(h.Sum32()%(shards-clusterShards))
	}
	h.Write([]byte(p.UID))
	return int(h.Sum32() % clusterShards)
}

// format is the prefix of the text form of digests. Replicas whose formats differ, as they may
// during an upgrade, do not confirm each other.
const format = "2:"

func (d digests) String() string {
	bytes := make([]byte, 0, 8*shards)
	for _, sum := range d {
		bytes = binary.BigEndian.AppendUint64(bytes, sum)
	}
	return format + base64.RawStdEncoding.EncodeToString(bytes)
}

// parseDigests parses the result of String. It reports whether s is valid.
func parseDigests(s string) (digests, bool) {
	var d digests
	text, ok := strings.CutPrefix(s, format)
	if !ok {
		return d, false
	}
	bytes, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil || len(bytes) != 8*shards {
		return d, false
	}
	for i := range d {
		d[i] = binary.BigEndian.Uint64(bytes[8*i:])
	}
	return d, true
}
