// Package probe finds out whether API servers call the webhooks.
//
// Everything may look well while they do not: a registration that is as it should be says
// nothing about certificates, Services and networks, and with the failure policy Ignore API
// servers admit what nobody has decided. So one replica writes a policy from time to time, as a dry
// run, and each webhook that sees it answers with a warning that only a replica can make. What
// comes back tells which webhooks were called, by the way that every other write takes.
//
// Nobody else can make a probe succeed: a warning is an authentication code for the random
// number that the writer has sent, under a key that replicas share. Nor can anybody make it
// fail, short of what keeps other writes from being decided.
package probe

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"strings"
	"sync/atomic"
	"time"

	usher "github.com/usher-dev/usher"
	"github.com/usher-dev/usher/api/kcloudlabs/v1alpha1"
)

const (
	// Name is that of the ClusterValidatePolicy that is never stored.
	Name = "usher-probe"
	// Annotation holds the question.
	Annotation = "usher.dev/probe"

	// compat is the label of the probe for webhooks on the original's paths. Usher's webhooks for
	// policies receive all probes, but those of earlier releases did not.
	compat = "kinitiras.kcloudlabs.io/webhook"

	resource = "clustervalidatepolicies"
	kind     = "ClusterValidatePolicy"
)

// Keys returns the keys that replicas share, the newest first. A question with any of them is
// answered; more than one lets replicas change keys one by one. Without a key there are no
// questions and no answers.
type Keys func() [][]byte

// phases are those that have to answer.
func phases() []usher.Phase { return []usher.Phase{usher.Mutate, usher.Validate} }

const (
	nonceSize = 24
	// validFor is how long a question is valid. The clocks of replicas may differ by as much.
	validFor = 5 * time.Minute
)

// question creates a unique question: the time, a random number, and a code that authenticates it
// as one of a replica.
func question(key []byte, now time.Time) string {
	nonce := binary.BigEndian.AppendUint64(make([]byte, 0, nonceSize), uint64(now.Unix()))
	nonce = nonce[:nonceSize]
	_, _ = rand.Read(nonce[8:])
	return encode(nonce) + "." + code(key, "question", nonce)
}

// answerable returns the content of a question, and its key; nil if it does not come from a
// replica, or is old.
func answerable(question string, keys [][]byte, now time.Time) (nonce, key []byte) {
	text, sum, ok := strings.Cut(question, ".")
	if !ok {
		return nil, nil
	}
	nonce, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(nonce) != nonceSize {
		return nil, nil
	}
	if now.Sub(time.Unix(int64(binary.BigEndian.Uint64(nonce)), 0)).Abs() > validFor {
		return nil, nil
	}
	for _, key := range keys {
		if hmac.Equal([]byte(sum), []byte(code(key, "question", nonce))) {
			return nonce, key
		}
	}
	return nil, nil
}

// answer is the answer of a phase to a question.
func answer(key []byte, phase usher.Phase, nonce []byte) string {
	return Name + " " + code(key, string(phase), nonce)
}

func code(key []byte, purpose string, nonce []byte) string {
	h := hmac.New(sha256.New, key)
	h.Write([]byte("usher.dev/probe " + purpose + "\n"))
	h.Write(nonce)
	return encode(h.Sum(nil))
}

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// An Answerer answers probes in front of a Decider.
type Answerer struct {
	keys Keys
	last atomic.Int64
}

// NewAnswerer returns an Answerer.
func NewAnswerer(keys Keys) *Answerer { return &Answerer{keys: keys} }

// Wrap returns a Decider that answers probes, which are dry runs, and passes all else to next.
func (a *Answerer) Wrap(next usher.Decider) usher.Decider {
	return usher.DeciderFunc(func(ctx context.Context, r *usher.Request) (usher.Decision, error) {
		if warning := a.answer(r); warning != "" {
			d := usher.Allowed()
			d.Warnings = []string{warning}
			return d, nil
		}
		return next.Decide(ctx, r)
	})
}

// Last returns when a probe was last answered; the zero time if none was.
func (a *Answerer) Last() time.Time {
	if at := a.last.Load(); at != 0 {
		return time.Unix(0, at)
	}
	return time.Time{}
}

// Apart returns a Decider that has probes decided by one Decider, also those that no key answers, such as those of
// people who ask whether Usher is called, and all else by another. Who has no right to write policies cannot hide
// anything so, and who has hides dry runs with the name of the probe.
func Apart(probes, others usher.Decider) usher.Decider {
	return usher.DeciderFunc(func(ctx context.Context, r *usher.Request) (usher.Decision, error) {
		if isProbe(r) {
			return probes.Decide(ctx, r)
		}
		return others.Decide(ctx, r)
	})
}

// isProbe compares the name first: that is cheap, and almost all requests differ.
func isProbe(r *usher.Request) bool {
	return r.Name == Name && r.DryRun && r.Object != nil && r.Subresource == "" &&
		r.Resource.Group == v1alpha1.GroupVersion.Group && r.Resource.Resource == resource
}

// answer returns "" for anything but a probe.
func (a *Answerer) answer(r *usher.Request) string {
	if !isProbe(r) {
		return ""
	}
	tree, err := r.Object.Tree()
	if err != nil {
		return ""
	}
	metadata, _ := tree["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	text, _ := annotations[Annotation].(string)
	now := time.Now()
	nonce, key := answerable(text, a.keys(), now)
	if nonce == nil {
		return ""
	}
	a.last.Store(now.UnixNano())
	return answer(key, r.Phase, nonce)
}
