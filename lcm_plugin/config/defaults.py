"""Names of files and tools by which settings know what they are, unless others are given."""

INSTRUCTION_FILES = (
    "SKILL.md",
    "AGENTS.md",
    "CLAUDE.md",
    "GEMINI.md",
    ".cursorrules",
    "copilot-instructions.md",
)
PLAN_TOOLS = (
    "TodoWrite",
    "todo",
    "todo_write",
    "write_todos",
    "update_plan",
    "update_todo_list",
    "manage_todo_list",
)
_READING = """
read* view* open_file* cat ls list* glob* grep* find* *search* lookup* get* fetch* *fetch browse* browser_snapshot
web_extract query* describe* show* *_read *_list *_view logs *_logs metrics *_metrics lcm_*
"""
READING_TOOLS = tuple(_READING.split())
