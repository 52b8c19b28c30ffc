package delegated

import (
	"context"
	"encoding/json"
	"net/http"
)

// An Access is what a caller may do in a namespace, or in the cluster.
type Access struct {
	User string `json:"user"`
	// Namespace is empty if it is about the whole cluster.
	Namespace string           `json:"namespace,omitempty"`
	Resources []ResourceAccess `json:"resources"`
}

// A ResourceAccess is what a caller may do with a resource.
type ResourceAccess struct {
	Group string `json:"group"`
	Name  string `json:"name"`
	// Served reports whether this server has the resource.
	Served bool `json:"served"`
	// Verbs are those that the caller may use.
	Verbs []string `json:"verbs"`
}

// access answers what the caller may do.
func (a *API) access(ctx context.Context, w http.ResponseWriter, request Request) error {
	answer := Access{User: request.User.GetName(), Namespace: request.Namespace}
	for _, resource := range Resources() {
		about := ResourceAccess{Group: Group, Name: resource, Served: a.options.Handlers[resource] != nil, Verbs: []string{}}
		for _, verb := range Verbs() {
			request.Resource, request.Verb = resource, verb
			allowed, _, err := a.allowed(ctx, request.attributes())
			if err != nil {
				return err
			}
			if allowed {
				about.Verbs = append(about.Verbs, verb)
			}
		}
		answer.Resources = append(answer.Resources, about)
	}
	body, err := json.MarshalIndent(answer, "", "  ")
	if err != nil {
		return err
	}
	send(w, http.StatusOK, append(body, '\n'))
	return nil
}
