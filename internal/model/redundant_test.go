package model_test

// redundant are clauses whose removal changes nothing that anybody could notice, and
// why they stand all the same.
var redundant = map[string]string{}
