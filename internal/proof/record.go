package proof

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/usher-dev/usher/api"
)

// MostRecorded limits the policies of a record: it has to fit into a Secret.
const MostRecorded = 20_000

// A Record is stored with the keys and lists the policies that are older than proofs. It is
// immutable.
type Record struct {
	// Lost is when a key was created because the previous one was lost; nil for the first key.
	// After a loss nothing is recorded: a policy without a proof may have been written without
	// Usher.
	Lost *time.Time `json:"lost,omitempty"`
	// Made is when the policies were recorded; nil if they have not been yet.
	Made *time.Time `json:"made,omitempty"`
	// Policies are the generations that stay in force without a proof.
	Policies map[types.UID]int64 `json:"policies,omitempty"`
	// LeftOut counts the policies that exceed the limit.
	LeftOut int `json:"leftOut,omitempty"`
}

// RecordLost returns the record of a key that replaces a lost one.
func RecordLost(now time.Time) Record {
	now = now.UTC().Truncate(time.Second)
	return Record{Lost: &now, Made: &now}
}

// RecordOf returns the record of the policies that exist when the first key is created. It omits
// policies that carry a proof: they come from another installation with another key. If there are
// too many, it omits the youngest. It omits kinds that are not from before proofs.
func RecordOf(policies []api.Object, now time.Time) Record {
	now = now.UTC().Truncate(time.Second)
	r := Record{Made: &now, Policies: map[types.UID]int64{}}
	policies = slices.DeleteFunc(slices.Clone(policies), func(p api.Object) bool {
		kind, ok := api.KindOf(p)
		return !ok || !kind.PredatesProofs || p.GetAnnotations()[Annotation] != ""
	})
	slices.SortFunc(policies, func(a, b api.Object) int {
		return cmp.Or(a.GetCreationTimestamp().Compare(b.GetCreationTimestamp().Time), cmp.Compare(a.GetUID(), b.GetUID()))
	})
	for i, policy := range policies {
		if i == MostRecorded {
			r.LeftOut = len(policies) - i
			break
		}
		r.Policies[policy.GetUID()] = policy.GetGeneration()
	}
	return r
}

// has reports whether a policy stays in force without a proof. Until the record is made, policies
// without a proof do.
func (r Record) has(object api.Object) bool {
	if r.Made == nil {
		return object.GetAnnotations()[Annotation] == ""
	}
	generation, ok := r.Policies[object.GetUID()]
	return ok && object.GetUID() != "" && generation == object.GetGeneration()
}

// Encode returns the record as text, which is compressed.
func (r Record) Encode() (string, error) {
	var text bytes.Buffer
	w := gzip.NewWriter(&text)
	if err := json.NewEncoder(w).Encode(r); err != nil {
		return "", fmt.Errorf("encode record of policies: %w", err)
	}
	if err := w.Close(); err != nil {
		return "", fmt.Errorf("encode record of policies: %w", err)
	}
	return text.String(), nil
}

// mostText limits the size of a decompressed record.
const mostText = 16 << 20

// DecodeRecord returns the record in a text that Encode returned. The empty text means that the
// record has not been made yet.
func DecodeRecord(text string) (Record, error) {
	var r Record
	if text == "" {
		return r, nil
	}
	reader, err := gzip.NewReader(bytes.NewReader([]byte(text)))
	if err == nil {
		err = json.NewDecoder(io.LimitReader(reader, mostText)).Decode(&r)
	}
	if err != nil {
		return Record{}, fmt.Errorf("decode record of policies: %w", err)
	}
	return r, nil
}
