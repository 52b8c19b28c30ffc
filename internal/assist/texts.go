package assist

import (
	"reflect"
	"strings"
)

// textsOf returns what the fields of types of the Kubernetes API are, by the names of their definitions, such as
// io.k8s.api.core.v1.PodSpec. Types that these have are among them.
func textsOf(types []reflect.Type) map[string]map[string]string {
	texts, seen := map[string]map[string]string{}, map[reflect.Type]bool{}
	for _, t := range types {
		addTexts(texts, seen, t)
	}
	return texts
}

func addTexts(texts map[string]map[string]string, seen map[reflect.Type]bool, t reflect.Type) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || seen[t] {
		return
	}
	seen[t] = true
	if has, ok := reflect.TypeAssert[documented](reflect.Zero(t)); ok {
		texts[definitionName(t)] = has.SwaggerDoc()
	}
	for member := range t.Fields() {
		addTexts(texts, seen, member.Type)
	}
}

// definitionName returns the name of the definition of a type, such as io.k8s.api.core.v1.Pod.
func definitionName(t reflect.Type) string {
	host, path, _ := strings.Cut(t.PkgPath(), "/")
	labels := strings.Split(host, ".")
	for i, j := 0, len(labels)-1; i < j; i, j = i+1, j-1 {
		labels[i], labels[j] = labels[j], labels[i]
	}
	return strings.Join(labels, ".") + "." + strings.ReplaceAll(path, "/", ".") + "." + t.Name()
}
