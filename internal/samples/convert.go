package samples

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// HostPort converts custom resources of stable.example.com: version v1 has hostPort, which
// v2 has as host and port. It is a converter for the door of package conversion.
type HostPort struct{}

// Convert changes object to the version to.
func (HostPort) Convert(_ context.Context, object *unstructured.Unstructured, to string) error {
	const v1, v2 = "stable.example.com/v1", "stable.example.com/v2"
	from := object.GetAPIVersion()
	switch {
	case from == to:
		return fmt.Errorf("conversion from a version to itself should not call the webhook: %s", to)
	case from != v1 && from != v2:
		return fmt.Errorf("unexpected conversion version %q", from)
	case to != v1 && to != v2:
		return fmt.Errorf("unexpected conversion version %q", to)
	case from == v1:
		return split(object.Object)
	}
	return join(object.Object)
}

func split(object map[string]any) error {
	hostPort, has := object["hostPort"]
	if !has {
		return nil
	}
	text, _ := hostPort.(string)
	parts := strings.Split(text, ":")
	if len(parts) != 2 {
		return fmt.Errorf("invalid hostPort value `%v`", hostPort)
	}
	delete(object, "hostPort")
	object["host"], object["port"] = parts[0], parts[1]
	return nil
}

func join(object map[string]any) error {
	host, hasHost := object["host"]
	port, hasPort := object["port"]
	if !hasHost && !hasPort {
		return nil
	}
	if !hasHost {
		host = ""
	}
	if !hasPort {
		port = ""
	}
	delete(object, "host")
	delete(object, "port")
	object["hostPort"] = fmt.Sprintf("%v:%v", host, port)
	return nil
}
