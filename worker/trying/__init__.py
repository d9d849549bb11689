"""Try your handlers: a real database, the worker's own code, a sandbox for what goes out, and nothing of yours touched.

@pytest.fixture(scope="session")
def trials():
    with Trials("nottwice.toml") as made:
        yield made

@pytest.fixture
def trial(trials):
    with trials.new() as made:                        # a database of its own: empty tables, yours and ours
        yield made

def test_a_paid_invoice_is_booked_and_its_receipt_goes_out_once(trial):
    trial.deliver("shop", "invoice.paid", {"invoice": …}, key="evt_7")
    (worked,) = trial.work()
    assert worked.ending == "completed"
    assert [action.key for action in trial.actions()] == ["invoice:INV-7:paid"]
    assert len(trial.send()) == 1                     # what the sandbox took
"""

from worker.trying.events import Worked
from worker.trying.trial import StoredAction, Trial
from worker.trying.trials import Trials

__all__ = ["StoredAction", "Trial", "Trials", "Worked"]
