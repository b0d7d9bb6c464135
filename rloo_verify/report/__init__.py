"""report.html: what people look at, for training runs, evaluations and comparisons. One file that opens from disk."""

from rloo_verify.report.comparison import write_comparison_report
from rloo_verify.report.evaluation import write_evaluation_report
from rloo_verify.report.training import write_report

__all__ = ["write_comparison_report", "write_evaluation_report", "write_report"]
