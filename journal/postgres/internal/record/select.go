package record

// Statements that find and select rows. {{schema}} stands for the schema's quoted name.

// FindNamed selects the handle of an operation by its name, or its second one.
const FindNamed = `SELECT handle FROM (
	SELECT handle FROM {{schema}}.operations WHERE identity = $1
	UNION ALL SELECT handle FROM {{schema}}.operations WHERE alias = $1) n LIMIT 1`

// Find is FindNamed, or by the generated key. It looks through the operations in flight by their holders: they are no
// more than are sent at a time. The others are indexed by portions of 65,536 handles. A random key anywhere in a
// large index would cost a page of it in the log. The search goes through the portions from the latest on. It reads
// no table from end to end, however young the table was when the plan was made.
const Find = `SELECT handle FROM (
	SELECT handle FROM {{schema}}.operations WHERE identity = $1
	UNION ALL SELECT handle FROM {{schema}}.operations WHERE alias = $1
	UNION ALL SELECT found FROM (
		WITH RECURSIVE holders (id) AS (
			SELECT min(holder) FROM {{schema}}.operations WHERE holder IS NOT NULL
			UNION ALL SELECT (SELECT min(holder) FROM {{schema}}.operations WHERE holder > h.id) FROM holders h WHERE h.id IS NOT NULL)
		SELECT (SELECT handle FROM {{schema}}.operations WHERE holder = h.id AND state = 2 AND identity IS NULL AND id = $2 AND scope = $3 AND parent = $4 LIMIT 1) AS found
		FROM holders h WHERE h.id IS NOT NULL) sent WHERE found IS NOT NULL
	UNION ALL SELECT found FROM (
		WITH RECURSIVE portions (portion) AS (
			(SELECT handle >> 16 FROM {{schema}}.operations WHERE identity IS NULL AND state <> 2 ORDER BY handle >> 16 DESC LIMIT 1)
			UNION ALL SELECT (SELECT handle >> 16 FROM {{schema}}.operations WHERE identity IS NULL AND state <> 2 AND handle >> 16 < p.portion
				ORDER BY handle >> 16 DESC LIMIT 1) FROM portions p WHERE p.portion IS NOT NULL)
		SELECT (SELECT handle FROM {{schema}}.operations WHERE identity IS NULL AND state <> 2 AND handle >> 16 = p.portion
			AND substr(id, 1, 100) = substr($2, 1, 100) AND id = $2 AND scope = $3 AND parent = $4 LIMIT 1) AS found
		FROM portions p WHERE p.portion IS NOT NULL) generated WHERE found IS NOT NULL) n LIMIT 1`

// ByRef is for operations o.
const ByRef = `o.handle = (` + Find + `)`

// WholeFrom selects whole operations.
const WholeFrom = `SELECT ` + Columns + `, r.body, a.head, a.body FROM {{schema}}.operations o` + Besides

// Besides looks up the requests and answers of operations o one by one. A plan that was made for a young table might
// otherwise read all of them from end to end.
const Besides = `
	LEFT JOIN LATERAL (SELECT head, body FROM {{schema}}.requests WHERE handle = o.handle OFFSET 0) r ON true
	LEFT JOIN LATERAL (SELECT head, body FROM {{schema}}.answers WHERE handle = o.handle OFFSET 0) a ON true `

// StepsOfFlows selects the steps of some flows, with their flow before them.
const StepsOfFlows = `SELECT flow, seq, kind, name, position, parallel, at, result, sum FROM {{schema}}.flow_steps WHERE flow = ANY($1) ORDER BY flow, seq`
