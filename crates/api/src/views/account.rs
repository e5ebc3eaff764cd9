use contract::AccountView;
use domain::account::Account;

pub(crate) fn account(account: &Account) -> AccountView {
    AccountView {
        id: account.id,
        uid: account.uid.clone(),
        name: account.name.clone(),
        retention_days: account.retention_days,
        created_at: account.created_at,
        updated_at: account.updated_at,
    }
}
