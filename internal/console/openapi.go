package console

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"reflect"
	"regexp"
	"strings"
	"time"
)

// A document is JSON that is being made.
type document = map[string]any

var inPath = regexp.MustCompile(`\{(\w+)\}`)

// describe returns the description of the API, in OpenAPI 3.1. It is made of the types that the routes have.
func describe(o Options) ([]byte, error) {
	schemas, paths := document{}, document{}
	failed := document{"description": "the error, in one sentence", "content": jsonOf(document{
		"type": "object", "required": []string{"error"}, "properties": document{"error": document{"type": "string"}},
	})}
	for i := range o.Routes {
		r := &o.Routes[i]
		answer := document{"text/event-stream": document{"schema": document{"type": "string"}}}
		if r.stream == nil {
			answer = jsonOf(schemaOf(r.out, schemas))
		}
		operation := document{"summary": r.Summary, "responses": document{
			"200": document{"description": "the answer", "content": answer}, "4XX": failed,
		}}
		if r.in != nil {
			operation["requestBody"] = document{"required": true, "content": jsonOf(schemaOf(r.in, schemas))}
		}
		if r.parameter != "" {
			in := "query"
			if inPath.MatchString(r.Path) {
				in = "path"
			}
			operation["parameters"] = []document{{"name": r.parameter, "in": in, "required": true, "schema": document{"type": "string"}}}
		}
		paths["/api/v1/"+r.Path] = document{strings.ToLower(r.Method): operation}
	}
	body, err := json.Marshal(document{
		"openapi": "3.1.0",
		"info":    document{"title": "usher console", "version": o.Version, "description": "Requests need the cookie that the address of usher console sets."},
		"paths":   paths, "components": document{"schemas": schemas},
	})
	if err != nil {
		return nil, fmt.Errorf("describe the API: %w", err)
	}
	return body, nil
}

func jsonOf(schema document) document {
	return document{"application/json": document{"schema": schema}}
}

// schemaOf returns the schema of a type. Structs with a name are added to schemas.
func schemaOf(t reflect.Type, schemas document) document {
	switch t.Kind() {
	case reflect.Pointer:
		return schemaOf(t.Elem(), schemas)
	case reflect.Slice:
		return document{"type": "array", "items": schemaOf(t.Elem(), schemas)}
	case reflect.Map:
		return document{"type": "object", "additionalProperties": schemaOf(t.Elem(), schemas)}
	case reflect.String:
		return document{"type": "string"}
	case reflect.Bool:
		return document{"type": "boolean"}
	case reflect.Float64:
		return document{"type": "number"}
	case reflect.Struct:
		if t == reflect.TypeFor[time.Time]() {
			return document{"type": "string", "format": "date-time"}
		}
		name := nameOf(t)
		if _, ok := schemas[name]; !ok {
			schemas[name] = document{}
			schemas[name] = structOf(t, schemas)
		}
		return document{"$ref": "#/components/schemas/" + name}
	case reflect.Interface:
		return document{}
	default:
		return document{"type": "integer"}
	}
}

// nameOf returns the name of the schema of a type. Packages have types of the same name.
func nameOf(t reflect.Type) string {
	if of := path.Base(t.PkgPath()); of != "console" {
		return of + "." + t.Name()
	}
	return t.Name()
}

func structOf(t reflect.Type, schemas document) document {
	properties, required := document{}, []string{}
	for field := range t.Fields() {
		if !field.IsExported() {
			continue
		}
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if field.Anonymous {
			inner := structOf(field.Type, schemas)
			maps.Copy(properties, inner["properties"].(document))
			required = append(required, inner["required"].([]string)...)
			continue
		}
		properties[name] = schemaOf(field.Type, schemas)
		if !strings.Contains(options, "omit") {
			required = append(required, name)
		}
	}
	return document{"type": "object", "properties": properties, "required": required}
}
