package e2e

import (
	"sync"

	"k8s.io/client-go/rest"
)

// heard collects warnings.
type heard struct {
	mu       sync.Mutex
	warnings []string
}

// HandleWarningHeader implements [rest.WarningHandler].
func (h *heard) HandleWarningHeader(_ int, _, text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.warnings = append(h.warnings, text)
}

// take returns the warnings since the last call.
func (h *heard) take() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := h.warnings
	h.warnings = nil
	return all
}

// listening returns the configuration of clients whose warnings are collected.
func (r *rig) listening() (*rest.Config, *heard) {
	h := &heard{}
	config := rest.CopyConfig(r.RESTConfig)
	config.WarningHandler = h
	return config, h
}
