package receipt

// Config is one world to explore.
type Config struct {
	Name  string
	About string

	Handler Handler
	PerKey  bool // transactions exclude each other by key, as on PostgreSQL; otherwise by file, as on SQLite
	Others  bool // the second caller has another request under the key
	Escapes bool // handlers may commit the transaction themselves, and two operators, or one if days pass, resolve what that leaves
	Breaks  bool // the database may end a transaction, and the handler overlooks it
	Days    bool // days pass, and the reaper runs
	Clocks  bool // the clock of a process may leap ahead or fall behind
}

// Handler is what the endpoint's handler does.
type Handler uint8

// The handlers.
const (
	Writes  Handler = iota // it writes a row in the request's transaction
	Idle                   // it never asks for the transaction
	Repeats                // it is repeatable, and makes a call
)

// Worlds are the worlds to explore.
var Worlds = []Config{
	{Name: "one file", About: "Two callers repeat one request at two processes on one file."},
	{Name: "one database", About: "Likewise on PostgreSQL, where a transaction may outlive its process.", PerKey: true},
	{Name: "another request", About: "The second caller has another request under the key.", Others: true},
	{Name: "another request, one database", About: "Likewise on PostgreSQL.", Others: true, PerKey: true},
	{Name: "the handler commits", About: "A handler commits the transaction itself, and operators resolve it.", Escapes: true},
	{Name: "the handler commits, one database", About: "Likewise on PostgreSQL.", Escapes: true, PerKey: true},
	{Name: "another request, the handler commits", About: "Likewise, with another request under the key.", Escapes: true, Others: true},
	{Name: "the database rolls back", About: "The database ends a transaction, and the handler does not notice it.", Breaks: true},
	{Name: "days pass", About: "Answers expire, keys become new, and the reaper runs beside requests.", Days: true, Others: true, PerKey: true},
	{Name: "days pass, clocks are wrong", About: "A clock leaps ahead, or falls behind by a day.", Days: true, Clocks: true},
	{Name: "days pass, the handler commits", About: "What no one resolves outlives its key's time.", Days: true, Escapes: true},
	{Name: "no transaction", About: "The handler never asks for the transaction: a success is recorded, a refusal is not.", Handler: Idle, PerKey: true, Others: true},
	{Name: "repeatable", About: "The handler may run at both processes: the first answer that is recorded is everyone's.", Handler: Repeats},
	{Name: "repeatable, one database", About: "Likewise on PostgreSQL.", Handler: Repeats, PerKey: true, Others: true},
}
