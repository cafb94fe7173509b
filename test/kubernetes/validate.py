"""Validates documents against the schemas of the newest two versions of Kubernetes, and against those of CRDs.

Reads {"documents": [{"name", "document"}], "crds": [path]} from standard input, and prints
{"versions": [version], "problems": [text]}. Unknown fields are problems.
"""

import functools
import json
import sys

import jsonschema
import kubernetes_validate
import yaml
from kubernetes_validate import utils

# The package reads all definitions of a version, and the names of all versions, again for each document.
utils.schema_contents = functools.cache(utils.schema_contents)
utils.all_versions = functools.cache(utils.all_versions)


def forbid_unknown_fields(schema):
    """Returns a schema of a CRD in which an object has the fields that it names, as the API server prunes others."""
    if isinstance(schema, list):
        return [forbid_unknown_fields(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    result = {key: forbid_unknown_fields(value) for key, value in schema.items()}
    is_open = schema.get("x-kubernetes-preserve-unknown-fields") or "additionalProperties" in schema
    if isinstance(schema.get("properties"), dict) and schema.get("type") == "object" and not is_open:
        result["additionalProperties"] = False
    return result


def read_crds(paths):
    """Returns the schema of each apiVersion and kind."""
    schemas = {}
    for path in paths:
        with open(path, encoding="utf-8") as file:
            crd = yaml.safe_load(file)
        spec = crd["spec"]
        for version in spec["versions"]:
            key = (f"{spec['group']}/{version['name']}", spec["names"]["kind"])
            schemas[key] = forbid_unknown_fields(version["schema"]["openAPIV3Schema"])
    return schemas


def list_problems(document, crds, versions):
    schema = crds.get((document["apiVersion"], document["kind"]))
    if schema is not None:
        validator = jsonschema.Draft4Validator(schema)
        return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(document)]
    problems = []
    for version in versions:
        try:
            kubernetes_validate.validate(document, version, strict=True)
        except Exception as error:  # Each kind of failure has a class of its own.
            problems.append(f"Kubernetes {version}: {getattr(error, 'message', error)}")
    return problems


def main():
    given = json.load(sys.stdin)
    crds = read_crds(given["crds"])
    known = {tuple(map(int, version.split(".")[:2])): version for version in utils.all_versions()}
    versions = [known[key] for key in sorted(known)[-2:]]
    problems = [
        f"{item['name']}: {problem}"
        for item in given["documents"]
        for problem in list_problems(item["document"], crds, versions)
    ]
    print(json.dumps({"versions": versions, "problems": problems}))


main()
